//! A loaded version of a model: its weights, the lanes that serve the standard protocol, its numbers.
//!
//! Each class has a queue and lanes of its own, so that a real-time request never waits for an instance
//! that a best-effort one works on. Clients of the local path bring lanes of their own.
//!
//! A model that is unloaded takes no more requests and finishes those that it has. Its memory is given
//! back when the last lane is gone.

use crate::class::Class;
use crate::engine::api::{Lane, Loaded, Sizes};
use crate::error::{Error, Result};
use crate::models::budget::Reservation;
use crate::models::model_spec::Recipe;
use crate::net::clients::ClientId;
use crate::observe::metrics::{Of, Which};
use crate::observe::observer::{Watch, Watched};
use crate::observe::stats::{Numbers, Stats};
use crate::observe::tracer::{LaneId, Request};
use crate::requests::job::{Job, Phases};
use crate::requests::queue::Queue;
use crate::tensor::TensorInfo;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A loaded version of a model.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) recipe: Recipe,
    pub(crate) input: TensorInfo,
    pub(crate) output: TensorInfo,
    pub(crate) sizes: Sizes,
    loaded: Arc<dyn Loaded>,
    /// As [`Class::EACH`].
    queues: [Arc<Queue>; 2],
    threads: Mutex<Vec<JoinHandle<()>>>,
    retired: AtomicBool,
    pub(crate) watch: Arc<Watch>,
    title: Arc<str>,
    /// As [`Class::EACH`].
    of: [Of; 2],
    stats: Mutex<Stats>,
    memory: Reservation,
}

/// What a model is made of, once it is loaded.
pub(crate) struct Parts {
    pub(crate) recipe: Recipe,
    pub(crate) input: TensorInfo,
    pub(crate) output: TensorInfo,
    pub(crate) sizes: Sizes,
    pub(crate) loaded: Arc<dyn Loaded>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) memory: Reservation,
}

impl Served {
    /// Makes its lanes and starts their threads.
    ///
    /// # Errors
    ///
    /// The device's.
    pub(crate) fn start(parts: Parts, queue: usize) -> Result<Arc<Self>> {
        let Parts { recipe, input, output, sizes, loaded, watch, memory } = parts;
        let of = Class::EACH.map(|class| Of {
            model: recipe.name.to_string(),
            version: recipe.version,
            class: class.name(),
        });
        let served = Arc::new(Self {
            input,
            output,
            sizes,
            loaded,
            queues: [queue; 2].map(|most| Arc::new(Queue::new(most))),
            threads: Mutex::default(),
            retired: AtomicBool::new(false),
            watch,
            title: format!("{}/{}", recipe.name, recipe.version).into(),
            recipe,
            of,
            stats: Mutex::default(),
            memory,
        });
        served.spawn().inspect_err(|_| served.retire())?;
        Ok(served)
    }

    fn spawn(self: &Arc<Self>) -> Result<()> {
        let instances = [self.recipe.instances.rt, self.recipe.instances.be];
        for (class, instances) in Class::EACH.into_iter().zip(instances) {
            for number in 0..instances {
                let lane = self.lane(class)?;
                let id = self.watch.tracer.lane(&format!("{} {class} {number}", self.title));
                let served = self.clone();
                let thread = thread::Builder::new().name(format!("reef-{class}-lane"));
                let thread = thread.spawn(move || served.serve(class, &id, lane));
                let thread = thread.map_err(|e| Error::system("no thread for a lane", e))?;
                self.threads.lock().push(thread);
            }
        }
        Ok(())
    }

    /// Name and version, for people.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Name and version, for metrics.
    pub(crate) fn which(&self) -> Which {
        Which { model: self.recipe.name.to_string(), version: self.recipe.version }
    }

    /// Pictures at a time.
    pub(crate) fn batch(&self) -> u64 {
        self.input.shape[0] as u64
    }

    /// Makes a lane for one client of its own.
    ///
    /// # Errors
    ///
    /// The device's.
    pub(crate) fn lane(&self, class: Class) -> Result<Box<dyn Lane>> {
        let lane = self.loaded.lane(class)?;
        Ok(Box::new(Watched { lane, watch: self.watch.clone() }))
    }

    /// Queues a request in its class.
    ///
    /// # Errors
    ///
    /// As [`Queue::push`].
    pub(crate) fn submit(&self, job: Job) -> Result<()> {
        let class = job.priority.class();
        let pushed = self.queue(class).push(job);
        pushed.inspect_err(|error| self.watch.metrics.note_refused(self.of(class), error))
    }

    /// The thread of a lane.
    fn serve(&self, class: Class, id: &LaneId, lane: Box<dyn Lane>) {
        let mut lane = Some(lane);
        while let Some(job) = self.queue(class).pop() {
            let mut phases = Phases::default();
            let how = match lane.take().map_or_else(|| self.lane(class), Ok) {
                Err(error) => Err(error),
                Ok(mut made) => {
                    let run = || job.run(&mut *made, &self.output, &mut phases);
                    let how = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                        Err(Error::Failed("the lane panicked".into())) // and has printed why
                    });
                    lane = is_sound(&how).then_some(made);
                    how
                }
            };
            self.note(id, class, job.client, &phases, how.as_ref().map(drop));
            let _ = job.reply.send(how); // nobody may wait any more
        }
    }

    /// Counts a request that has ended.
    pub(crate) fn note(
        &self,
        lane: &LaneId,
        class: Class,
        client: ClientId,
        phases: &Phases,
        how: Result<(), &Error>,
    ) {
        self.watch.metrics.note(self.of(class), phases, how);
        self.stats.lock().note(phases, how.is_ok());
        self.watch.tracer.note(|| Request {
            lane: lane.clone(),
            model: self.title.clone(),
            class,
            client,
            phases: *phases,
            outcome: how.err().map_or("ok", Error::kind),
            end: Instant::now(),
        });
    }

    /// What it has done so far.
    pub(crate) fn numbers(&self) -> Numbers {
        self.stats.lock().numbers()
    }

    /// Bytes that it has reserved.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Requests that wait, by class.
    pub(crate) fn depths(&self) -> impl Iterator<Item = (Of, usize)> {
        self.of.iter().cloned().zip(self.queues.iter().map(|queue| queue.len()))
    }

    /// Whether it takes no more requests.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Takes no more requests, and waits for those that it has.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.queues.iter().for_each(|queue| queue.close());
        for thread in std::mem::take(&mut *self.threads.lock()) {
            let _ = thread.join(); // a panic has already been printed
        }
    }

    fn queue(&self, class: Class) -> &Queue {
        &self.queues[class as usize]
    }

    fn of(&self, class: Class) -> &Of {
        &self.of[class as usize]
    }
}

/// Whether the lane can be used again: errors of the client leave it whole.
pub(crate) fn is_sound<T>(how: &Result<T>) -> bool {
    !matches!(how, Err(Error::Failed(_) | Error::Unavailable(_) | Error::Exhausted(_)))
}

#[cfg(test)]
mod tests;
