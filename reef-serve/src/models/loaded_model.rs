//! A loaded version of a model on one device: its weights, the instances that serve the standard
//! protocol, its numbers.
//!
//! Each class has a queue and instances of its own, so that a real-time request never waits for an
//! instance that a best-effort one works on. Clients of the local path bring instances of their
//! own.
//!
//! A model that is unloaded takes no more requests and finishes those that it has. Its memory is
//! given back when the last instance is gone.

use crate::class::Class;
use crate::engine::instance_count::Counted;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::budget::Budget;
use crate::models::declaration::{Declaration, Shapes, rows_of};
use crate::models::model_spec::ModelSpec;
use crate::models::shaped::factory::Maker;
use crate::models::shaped::variant::Variant;
use crate::models::shaped::variants::Variants;
use crate::net::identity::client_id::ClientId;
use crate::observe::metrics::{ClassLabels, ModelLabels};
use crate::observe::observer::Observer;
use crate::observe::stats::{Numbers, Stats};
use crate::observe::tracer::{InstanceId, Request};
use crate::requests::job::{Job, Phases, Rows};
use crate::requests::queue::Queue;
use crate::tensor::{TensorInfo, TensorInfos};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A loaded version of a model, on one device: a replica, if it is on several.
#[derive(Debug)]
pub(crate) struct LoadedModel {
    pub(crate) spec: ModelSpec,
    /// As metadata have them: -1 is a size that requests choose.
    pub(crate) inputs: TensorInfos,
    pub(crate) outputs: TensorInfos,
    /// For the usual shapes, or the only ones.
    pub(crate) base: Arc<Variant>,
    /// For others.
    pub(crate) variants: Variants,
    /// Where sizes are open.
    pub(super) declaration: Option<Declaration>,
    pub(super) maker: Arc<Maker>,
    /// As [`Class::EACH`].
    queues: [Arc<Queue>; 2],
    threads: Mutex<Vec<JoinHandle<()>>>,
    retired: AtomicBool,
    /// Its instances, until it is retired.
    lanes: Mutex<Option<Counted>>,
    pub(crate) observer: Arc<Observer>,
    title: Arc<str>,
    /// As [`Class::EACH`].
    of: [ClassLabels; 2],
    /// Of all replicas.
    pub(crate) stats: Arc<Stats>,
}

impl LoadedModel {
    /// The shapes that a request chooses; `None` if none is open. They are given in the model's
    /// order.
    ///
    /// # Errors
    ///
    /// `Invalid` if they can't be those of the model.
    pub(crate) fn shapes_of<'a>(
        &self,
        given: impl Iterator<Item = &'a [i64]>,
    ) -> Result<Option<Shapes>> {
        let Some(declaration) = self.declaration.as_ref().filter(|d| d.is_open()) else {
            return Ok(None);
        };
        let size = |&size: &i64| usize::try_from(size).unwrap_or_default();
        let shapes: Shapes = given.map(|shape| shape.iter().map(size).collect()).collect();
        declaration.check(&shapes).map(|()| Some(shapes))
    }
}

/// What a loaded model is made of.
pub(crate) struct Parts {
    pub(crate) spec: ModelSpec,
    pub(crate) base: Arc<Variant>,
    pub(crate) variants: Variants,
    pub(crate) declaration: Option<Declaration>,
    pub(crate) maker: Arc<Maker>,
    /// What its other replicas count in.
    pub(crate) stats: Arc<Stats>,
}

impl LoadedModel {
    /// Starts the threads of its lanes.
    ///
    /// # Errors
    ///
    /// `Failed`: there are no threads.
    pub(crate) fn start(parts: Parts, queue: usize) -> Result<Arc<Self>> {
        let Parts { spec, base, variants, declaration, maker, stats } = parts;
        let observer = maker.observer.clone();
        let infos = (&base.inputs, &base.outputs);
        let (inputs, outputs) = match &declaration {
            Some(declaration) => declaration.metadata(infos),
            None => (infos.0.clone(), infos.1.clone()),
        };
        let of = Class::EACH.map(|class| ClassLabels {
            model: spec.name.to_string(),
            version: spec.version,
            class: class.name(),
        });
        let counts = [spec.instances.rt, spec.instances.be];
        let lanes = Mutex::new(Some(maker.node.count_lanes(counts)));
        let served = Arc::new(Self {
            inputs,
            outputs,
            base,
            variants,
            declaration,
            maker,
            queues: [queue; 2].map(|max| Arc::new(Queue::new(max))),
            threads: Mutex::default(),
            retired: AtomicBool::new(false),
            lanes,
            observer,
            title: format!("{}/{}", spec.name, spec.version).into(),
            spec,
            of,
            stats,
        });
        served.spawn().inspect_err(|_| served.retire())?;
        Ok(served)
    }

    fn spawn(self: &Arc<Self>) -> Result<()> {
        let instances = [self.spec.instances.rt, self.spec.instances.be];
        for (class, instances) in Class::EACH.into_iter().zip(instances) {
            for number in 0..instances {
                let name = format!("{} {class} {number}{}", self.title, self.node().place());
                let id = self.observer.tracer.instance(&name);
                let served = self.clone();
                let thread = thread::Builder::new().name(format!("reef-{class}-lane"));
                let thread = thread.spawn(move || served.serve(class, &id));
                let thread = thread.map_err(|e| Error::system("no thread for a lane", e))?;
                self.threads.lock().push(thread);
            }
        }
        Ok(())
    }

    /// The device that it is on.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.maker.node
    }

    /// What that device has of the daemon's memory.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.maker.budget
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
        let first = self.base.inputs.each.first().and_then(|input| input.shape.first());
        first.map_or(1, |&size| size as u64)
    }

    /// Queues a request in its class.
    ///
    /// # Errors
    ///
    /// As [`Queue::push`]; `Unavailable` if its device is lost.
    pub(crate) fn submit(&self, job: Job) -> Result<()> {
        let class = job.priority.class();
        self.queue(class).push(job).map_err(|error| self.node().explained(error))
    }

    /// Counts a request that has ended, once: `None` if its client went away before its answer.
    pub(crate) fn note_answer(
        &self,
        class: Class,
        phases: &Phases,
        how: Option<Result<(), &Error>>,
    ) {
        self.observer.metrics.note_answer(self.of(class), phases.total(), how);
        self.stats.note(phases, matches!(how, Some(Ok(()))));
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

    /// Sizes of a tensor as configurations have them: without the first where it is that of
    /// requests that run together.
    pub(crate) fn dims<'a>(&self, info: &'a TensorInfo) -> &'a [i64] {
        if self.spec.max_batch() > 1 {
            info.shape.get(1..).unwrap_or_default()
        } else {
            &info.shape
        }
    }

    /// How often it has run, which is less often than it was asked where requests ran together.
    pub(crate) fn executions(&self) -> u64 {
        self.stats.executions()
    }

    /// What of a request decides whether it may run with others.
    pub(crate) fn rows_of(&self, class: Class, shapes: &Shapes) -> Option<Rows> {
        let max = self.spec.batching[class as usize]?.max;
        let count = rows_of(shapes)?;
        let others = shapes.iter().map(|sizes| sizes[1..].to_vec()).collect();
        (count <= max).then_some(Rows { count, others })
    }

    /// What it and its other replicas have done so far.
    pub(crate) fn numbers(&self) -> Numbers {
        self.stats.numbers()
    }

    /// Bytes that it has reserved.
    pub(crate) fn bytes(&self) -> u64 {
        self.variants.bytes()
    }

    /// Requests that wait, by class.
    pub(crate) fn depths(&self) -> impl Iterator<Item = (ClassLabels, usize)> {
        self.of.iter().cloned().zip(self.queues.iter().map(|queue| queue.len()))
    }

    /// Whether it takes no more requests.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Takes no more requests.
    pub(super) fn close(&self) {
        self.retired.store(true, Ordering::Release);
        self.queues.iter().for_each(|queue| queue.close());
    }

    /// Waits for the requests that it has, and drops its instances. Never returns if the device
    /// never ends them.
    pub(super) fn finish(&self) {
        for thread in std::mem::take(&mut *self.threads.lock()) {
            let _ = thread.join(); // a panic has already been printed
        }
        self.variants.clear();
        self.base.clear();
        self.lanes.lock().take();
    }

    pub(super) fn queue(&self, class: Class) -> &Queue {
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
