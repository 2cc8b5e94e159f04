//! A loaded version of a model: its weights, the instances that serve the standard protocol, its numbers.
//!
//! Each class has a queue and instances of its own, so that a real-time request never waits for an instance
//! that a best-effort one works on. Clients of the local path bring instances of their own.
//!
//! A model that is unloaded takes no more requests and finishes those that it has. Its memory is given
//! back when the last instance is gone.

use crate::class::Class;
use crate::engine::api::{DeviceModel, Instance, Sizes};
use crate::error::{Error, Result};
use crate::models::budget::Reservation;
use crate::models::model_spec::ModelSpec;
use crate::net::identity::client_id::ClientId;
use crate::observe::metrics::{ClassLabels, ModelLabels};
use crate::observe::observer::{Observed, Observer};
use crate::observe::stats::{Numbers, Stats};
use crate::observe::tracer::{InstanceId, Request};
use crate::requests::job::{Job, Phases};
use crate::requests::queue::Queue;
use crate::tensor::TensorInfos;
use parking_lot::Mutex;
use reef::ClientConfig;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A loaded version of a model.
#[derive(Debug)]
pub(crate) struct LoadedModel {
    pub(crate) spec: ModelSpec,
    pub(crate) inputs: TensorInfos,
    pub(crate) outputs: TensorInfos,
    pub(crate) sizes: Sizes,
    loaded: Arc<dyn DeviceModel>,
    /// As [`Class::EACH`].
    queues: [Arc<Queue>; 2],
    threads: Mutex<Vec<JoinHandle<()>>>,
    retired: AtomicBool,
    pub(crate) observer: Arc<Observer>,
    title: Arc<str>,
    /// As [`Class::EACH`].
    of: [ClassLabels; 2],
    stats: Mutex<Stats>,
    memory: Reservation,
}

/// What a model is made of, once it is loaded.
pub(crate) struct Parts {
    pub(crate) spec: ModelSpec,
    pub(crate) inputs: TensorInfos,
    pub(crate) outputs: TensorInfos,
    pub(crate) sizes: Sizes,
    pub(crate) loaded: Arc<dyn DeviceModel>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) memory: Reservation,
}

impl LoadedModel {
    /// Makes its instances and starts their threads.
    ///
    /// # Errors
    ///
    /// The device's.
    pub(crate) fn start(parts: Parts, queue: usize) -> Result<Arc<Self>> {
        let Parts { spec, inputs, outputs, sizes, loaded, observer, memory } = parts;
        let of = Class::EACH.map(|class| ClassLabels {
            model: spec.name.to_string(),
            version: spec.version,
            class: class.name(),
        });
        let served = Arc::new(Self {
            inputs,
            outputs,
            sizes,
            loaded,
            queues: [queue; 2].map(|max| Arc::new(Queue::new(max))),
            threads: Mutex::default(),
            retired: AtomicBool::new(false),
            observer,
            title: format!("{}/{}", spec.name, spec.version).into(),
            spec,
            of,
            stats: Mutex::default(),
            memory,
        });
        served.spawn().inspect_err(|_| served.retire())?;
        Ok(served)
    }

    fn spawn(self: &Arc<Self>) -> Result<()> {
        let instances = [self.spec.instances.rt, self.spec.instances.be];
        for (class, instances) in Class::EACH.into_iter().zip(instances) {
            for number in 0..instances {
                let instance = self.shared_instance(class)?;
                let id = self.observer.tracer.instance(&format!("{} {class} {number}", self.title));
                let served = self.clone();
                let thread = thread::Builder::new().name(format!("reef-{class}-lane"));
                let thread = thread.spawn(move || served.serve(class, &id, instance));
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
    pub(crate) fn which(&self) -> ModelLabels {
        ModelLabels { model: self.spec.name.to_string(), version: self.spec.version }
    }

    /// The first size of its first input: pictures at a time, as far as it is one for pictures.
    pub(crate) fn batch(&self) -> u64 {
        let first = self.inputs.each.first().and_then(|input| input.shape.first());
        first.map_or(1, |&size| size as u64)
    }

    /// One for all clients.
    fn shared_instance(&self, class: Class) -> Result<Box<dyn Instance>> {
        self.instance(class, ClientConfig::default())
    }

    /// Makes an instance for one client of its own, that was granted `config`.
    ///
    /// # Errors
    ///
    /// The device's.
    pub(crate) fn instance(&self, class: Class, config: ClientConfig) -> Result<Box<dyn Instance>> {
        let instance = self.loaded.instance(class, config)?;
        Ok(Box::new(Observed { instance, observer: self.observer.clone() }))
    }

    /// Queues a request in its class.
    ///
    /// # Errors
    ///
    /// As [`Queue::push`].
    pub(crate) fn submit(&self, job: Job) -> Result<()> {
        let class = job.priority.class();
        self.queue(class).push(job)
    }

    /// The thread of an instance.
    fn serve(&self, class: Class, id: &InstanceId, instance: Box<dyn Instance>) {
        let mut instance = Some(instance);
        while let Some(job) = self.queue(class).pop() {
            let mut phases = Phases::default();
            let how = match instance.take().map_or_else(|| self.shared_instance(class), Ok) {
                Err(error) => Err(error),
                Ok(mut made) => {
                    let run = || job.run(&mut *made, &mut phases);
                    let how = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                        Err(Error::Failed("the lane panicked".into())) // and has printed why
                    });
                    instance = is_sound(&how).then_some(made);
                    how
                }
            };
            self.note_run(id, class, job.client, &phases, how.as_ref().map(drop));
            let _ = job.reply.send((how, phases)); // the client may be gone
        }
    }

    /// Counts a request that has ended, once: `None` if its client went away before its answer.
    pub(crate) fn note_answer(
        &self,
        class: Class,
        phases: &Phases,
        how: Option<Result<(), &Error>>,
    ) {
        self.observer.metrics.note_answer(self.of(class), phases.total(), how);
        self.stats.lock().note(phases, matches!(how, Some(Ok(()))));
    }

    /// Notes what an instance has run, for histograms and traces.
    pub(crate) fn note_run(
        &self,
        instance: &InstanceId,
        class: Class,
        client: ClientId,
        phases: &Phases,
        how: Result<(), &Error>,
    ) {
        self.observer.metrics.note_phases(self.of(class), phases);
        self.observer.tracer.note(|| Request {
            instance: instance.clone(),
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
    pub(crate) fn depths(&self) -> impl Iterator<Item = (ClassLabels, usize)> {
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

    fn of(&self, class: Class) -> &ClassLabels {
        &self.of[class as usize]
    }
}

/// Whether the instance can be used again: errors of the client leave it usable.
pub(crate) fn is_sound<T>(how: &Result<T>) -> bool {
    !matches!(how, Err(Error::Failed(_) | Error::Unavailable(_) | Error::Exhausted(_)))
}

#[cfg(test)]
mod tests;
