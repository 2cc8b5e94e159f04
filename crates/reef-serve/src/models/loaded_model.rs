//! A loaded version of a model on one device: its weights, the instances that serve the standard
//! protocol, its figures.
//!
//! Each class has a queue and instances of its own, so a real-time request never waits for an
//! instance that runs a best-effort one. Clients of the local path have instances of their own.
//!
//! A model that is being unloaded refuses new requests and finishes those that have found it. Its
//! memory is returned when its last instance is dropped.

use crate::class::Class;
use crate::engine::call::{CallHead, WorkerId};
use crate::engine::instance_count::CountGuard;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::budget::Budget;
use crate::models::declaration::{Declaration, Shapes, ValueInput, rows_of};
use crate::models::entries::{Entries, EntryGuard};
use crate::models::model_spec::{ModelSpec, of};
use crate::models::sequences::table::Sequences;
use crate::models::shaped::factory::VariantFactory;
use crate::models::shaped::on_demand::{OnDemand, Stay};
use crate::models::shaped::variant::Variant;
use crate::models::shaped::variants::Variants;
use crate::net::identity::client_id::ClientId;
use crate::observe::metrics::{ClassLabels, ModelLabels};
use crate::observe::observer::Observer;
use crate::observe::stats::{Numbers, Stats};
use crate::observe::tracer::{InstanceId, Request};
use crate::requests::job::{Job, Phases, Rows};
use crate::requests::queue::Queue;
use crate::residency::residents::no_room;
use crate::tensor::{TensorInfo, TensorInfos};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A loaded version of a model on one device: a replica, if it is on several.
#[derive(Debug)]
pub(crate) struct LoadedModel {
    pub(crate) spec: ModelSpec,
    /// As in metadata: -1 is a size that requests choose.
    pub(crate) inputs: TensorInfos,
    pub(crate) outputs: TensorInfos,
    /// Network for the default shapes, or the only ones.
    pub(crate) base: Arc<Variant>,
    /// Networks for other shapes.
    pub(crate) variants: Variants,
    /// Set if it has state, or a program that keeps it.
    pub(crate) sequences: Option<Sequences>,
    /// Set if sizes are open.
    pub(super) declaration: Option<Declaration>,
    /// Set if it is a network that is on its device on demand.
    pub(super) on_demand: Option<Arc<OnDemand>>,
    pub(super) factory: Arc<VariantFactory>,
    /// One for each of [`Class::ALL`].
    queues: [Arc<Queue>; 2],
    /// Requests that are not queued yet.
    pub(super) entries: Entries,
    threads: Mutex<Vec<JoinHandle<()>>>,
    is_retired: AtomicBool,
    /// Count of its instances, until it is retired.
    instance_count: Mutex<Option<CountGuard>>,
    pub(crate) observer: Arc<Observer>,
    title: Arc<str>,
    /// Labels for each of [`Class::ALL`].
    of: [ClassLabels; 2],
    /// Shared by all replicas.
    pub(crate) stats: Arc<Stats>,
}

impl LoadedModel {
    /// Returns the shapes that a request chooses, from `given` in the model's order; `None` if no
    /// size is open.
    ///
    /// # Errors
    ///
    /// `Invalid` if the model cannot have them.
    pub(crate) fn shapes_of<'a>(
        &self,
        given: impl Iterator<Item = &'a [i64]>,
    ) -> Result<Option<Shapes>> {
        let Some(declaration) = self.declaration.as_ref().filter(|d| d.is_open()) else {
            return Ok(None);
        };
        let size = |&size: &i64| {
            let wrong =
                || Error::Invalid(format!("a size of a tensor must be at least 0, got {size}"));
            usize::try_from(size).map_err(|_| wrong())
        };
        let sizes = |shape: &[i64]| shape.iter().map(size).collect::<Result<Vec<_>>>();
        let shapes: Shapes = given.map(sizes).collect::<Result<_>>()?;
        declaration.check(&shapes).map(|()| Some(shapes))
    }

    /// Returns the inputs whose values decide about shapes. Their values follow the shapes that a
    /// request chooses.
    pub(crate) fn value_inputs(&self) -> &[ValueInput] {
        self.declaration.as_ref().map(Declaration::value_inputs).unwrap_or_default()
    }
}

/// Components of a loaded model.
pub(crate) struct Parts {
    pub(crate) spec: ModelSpec,
    pub(crate) base: Arc<Variant>,
    pub(crate) variants: Variants,
    pub(crate) declaration: Option<Declaration>,
    pub(crate) on_demand: Option<Arc<OnDemand>>,
    pub(crate) factory: Arc<VariantFactory>,
    /// Statistics shared with its other replicas.
    pub(crate) stats: Arc<Stats>,
}

impl LoadedModel {
    /// Starts its worker threads.
    ///
    /// # Errors
    ///
    /// `Failed` if a thread cannot be started.
    pub(crate) fn start(parts: Parts, queue: usize) -> Result<Arc<Self>> {
        let Parts { spec, base, variants, declaration, on_demand, factory, stats } = parts;
        let observer = factory.observer.clone();
        let infos = (&base.inputs, &base.outputs);
        let (inputs, outputs) = match &declaration {
            Some(declaration) => declaration.metadata(infos),
            None => (infos.0.clone(), infos.1.clone()),
        };
        let outputs = outputs.with_open_shapes();
        let sequences = sequences(&spec, &inputs, &outputs)?;
        let of = Class::ALL.map(|class| ClassLabels {
            model: spec.name.to_string(),
            version: spec.version,
            class: class.name(),
        });
        let counts = [spec.instances.rt, spec.instances.be];
        let instance_count = Mutex::new(Some(factory.node.count_instances(counts)));
        let served = Arc::new(Self {
            inputs,
            outputs,
            base,
            sequences,
            variants,
            declaration,
            on_demand,
            factory,
            queues: [queue; 2].map(|max| Arc::new(Queue::new(max))),
            entries: Entries::default(),
            threads: Mutex::default(),
            is_retired: AtomicBool::new(false),
            instance_count,
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
        for (class, instances) in Class::ALL.into_iter().zip(instances) {
            for number in 0..instances {
                let name = format!("{} {class} {number}{}", self.title, self.node().place());
                let id = self.observer.tracer.instance(&name);
                let served = self.clone();
                let thread = thread::Builder::new().name(format!("reef-{class}-lane"));
                let thread = thread.spawn(move || served.serve(WorkerId { class, number }, &id));
                let thread =
                    thread.map_err(|e| Error::system("cannot start a worker thread", e))?;
                self.threads.lock().push(thread);
            }
        }
        Ok(())
    }

    /// Inputs that a request has: those that are not state.
    pub(crate) fn request_inputs(&self) -> impl Iterator<Item = &TensorInfo> {
        let state = self.sequences.iter().flat_map(|sequences| &sequences.tensors);
        let state: Vec<usize> = state.map(|tensor| tensor.input).collect();
        let each = self.inputs.each.iter().enumerate();
        each.filter(move |(index, _)| !state.contains(index)).map(|(_, info)| info)
    }

    /// Outputs that an answer has: those that are not state.
    pub(crate) fn answer_outputs(&self) -> impl Iterator<Item = (usize, &TensorInfo)> {
        let state = self.sequences.iter().flat_map(|sequences| &sequences.tensors);
        let state: Vec<usize> = state.map(|tensor| tensor.output).collect();
        self.outputs.each.iter().enumerate().filter(move |(index, _)| !state.contains(index))
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.factory.node
    }

    /// Returns the device's part of the daemon's budget.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.factory.budget
    }

    /// Returns name and version, for people.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Returns name and version, for metrics.
    pub(crate) fn labels(&self) -> ModelLabels {
        ModelLabels { model: self.spec.name.to_string(), version: self.spec.version }
    }

    /// Returns the first size of its first input: images at a time, for networks of images.
    pub(crate) fn batch(&self) -> u64 {
        let first = self.base.inputs.each.first().and_then(|input| input.shape.first());
        first.filter(|_| !self.spec.is_process()).map_or(1, |&size| size as u64)
    }

    /// Counts a request until it is queued; `None` if the model refuses new ones.
    pub(crate) fn enter(&self) -> Option<EntryGuard> {
        self.entries.enter()
    }

    /// Refuses a request of a class for which it has no instance.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(crate) fn check_class(&self, class: Class) -> Result<()> {
        if [self.spec.instances.rt, self.spec.instances.be][class as usize] > 0 {
            return Ok(());
        }
        let name = if class == Class::RealTime { "real-time" } else { "best-effort" };
        Err(Error::Invalid(format!(
            "model {}: has no instance for {name} requests: instances.{class} is 0",
            self.title
        )))
    }

    /// Queues a request in its class.
    ///
    /// # Errors
    ///
    /// Errors of [`check_class`](Self::check_class) and of [`Queue::push`]; `Unavailable` if its
    /// device is lost.
    pub(crate) fn submit(&self, job: Job) -> Result<()> {
        let class = job.priority.class();
        self.check_class(class)?; // it may have another one than it asked for
        self.queue(class).push(job).map_err(|error| self.node().explain(error))
    }

    /// Returns the error for a request of a class whose time is over before it has an answer, if it
    /// is another one than that.
    pub(crate) fn late(&self, class: Class) -> Option<Error> {
        if self.on_demand.as_ref().is_some_and(|on_demand| on_demand.is_off()) {
            return Some(no_room());
        }
        self.base.loaded().ok()?.late(class)
    }

    /// Waits until it is on its device, and keeps it there until the result is dropped; `None` if
    /// it always is.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it is not there within `time`, if no client waits any more, or if the
    /// daemon ends.
    pub(crate) fn stay(
        &self,
        class: Class,
        time: Duration,
        gone: &dyn Fn() -> bool,
    ) -> Result<Option<Stay>> {
        let is_over = || gone() || self.factory.closing.load(Ordering::SeqCst);
        let on_demand = self.on_demand.as_ref();
        on_demand.map(|on_demand| on_demand.enter(class, time, &is_over)).transpose()
    }

    /// Counts a request that has ended, once: `None` if its client disconnected before its answer.
    pub(crate) fn note_answer(
        &self,
        class: Class,
        phases: &Phases,
        outcome: Option<Result<(), &Error>>,
    ) {
        self.observer.metrics.note_answer(self.of(class), phases.total(), outcome);
        if matches!(outcome, Some(Ok(()))) {
            self.observer.latencies.note(class, phases.total());
        }
        self.stats.note(phases, matches!(outcome, Some(Ok(()))));
    }

    /// Records a run of an instance, for histograms and traces.
    pub(crate) fn note_run(
        &self,
        instance: &InstanceId,
        class: Class,
        client: ClientId,
        phases: &Phases,
        outcome: Result<(), &Error>,
    ) {
        self.observer.metrics.note_phases(self.of(class), phases);
        self.observer.tracer.note(|| Request {
            instance: instance.clone(),
            model: self.title.clone(),
            class,
            client,
            phases: *phases,
            outcome: outcome.err().map_or("ok", Error::kind),
            end: Instant::now(),
        });
    }

    /// Returns the sizes of a tensor for configurations: without the first one if requests are
    /// batched.
    pub(crate) fn dims<'a>(&self, info: &'a TensorInfo) -> &'a [i64] {
        if self.spec.max_rows() > 1 { info.shape.get(1..).unwrap_or_default() } else { &info.shape }
    }

    /// Number of executions, which is below the number of requests if batches ran.
    pub(crate) fn executions(&self) -> u64 {
        self.stats.executions()
    }

    /// Returns the rows of a request, if it may run in a batch.
    pub(crate) fn rows_of(&self, class: Class, shapes: &Shapes) -> Option<Rows> {
        let max = self.spec.batching[class as usize]?.max;
        let count = rows_of(shapes)?;
        let others = shapes.iter().map(|sizes| sizes[1..].to_vec()).collect();
        (count <= max).then_some(Rows { count, others })
    }

    /// Returns the rows of a request to a process, if it may run in a batch: one, whatever its
    /// shapes are, for a program without rows.
    pub(crate) fn rows_of_call(&self, class: Class, call: &CallHead) -> Option<Rows> {
        self.spec.batching[class as usize]?;
        if !self.spec.has_rows() {
            return Some(Rows { count: 1, others: Vec::new() });
        }
        let size = |&size: &i64| usize::try_from(size).unwrap_or_default();
        let sizes = |info: &TensorInfo| info.shape.iter().map(size).collect::<Vec<usize>>();
        let shapes: Shapes = call.inputs.iter().map(sizes).collect();
        self.rows_of(class, &shapes)
    }

    /// Returns the figures of all replicas so far.
    pub(crate) fn numbers(&self) -> Numbers {
        self.stats.numbers()
    }

    /// Bytes that it has reserved.
    pub(crate) fn bytes(&self) -> u64 {
        self.variants.bytes()
    }

    /// Waiting requests, by class.
    pub(crate) fn depths(&self) -> impl Iterator<Item = (ClassLabels, usize)> {
        self.of.iter().cloned().zip(self.queues.iter().map(|queue| queue.len()))
    }

    /// True if it refuses new requests.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }

    /// Refuses new requests from now on.
    pub(super) fn close(&self) {
        self.is_retired.store(true, Ordering::Release);
        self.entries.close();
    }

    /// Waits for the requests that have found it, unless the daemon ends, and drops the instances.
    /// Never returns if the device never ends them.
    pub(super) fn finish(&self) {
        let is_closing = || self.factory.closing.load(Ordering::SeqCst);
        self.entries.wait(|| self.node().lost().is_none() && !is_closing());
        self.queues.iter().for_each(|queue| queue.close());
        self.base.loaded().into_iter().for_each(|loaded| loaded.close());
        for thread in std::mem::take(&mut *self.threads.lock()) {
            let _ = thread.join(); // a panic has already been printed
        }
        self.sequences.iter().for_each(Sequences::clear);
        self.on_demand.iter().for_each(|on_demand| on_demand.end());
        self.variants.clear();
        self.base.loaded().into_iter().for_each(|loaded| loaded.begin_end());
        self.base.clear();
        self.instance_count.lock().take();
    }

    pub(super) fn queue(&self, class: Class) -> &Queue {
        &self.queues[class as usize]
    }

    fn of(&self, class: Class) -> &ClassLabels {
        &self.of[class as usize]
    }
}

/// Finds the state of a model among its tensors.
fn sequences(
    spec: &ModelSpec,
    inputs: &TensorInfos,
    outputs: &TensorInfos,
) -> Result<Option<Sequences>> {
    let Some(state) = &spec.state else { return Ok(None) };
    let tensors = state.tensors(inputs, outputs);
    let tensors = tensors.map_err(|error| of(&spec.name, spec.version, error))?;
    Ok(Some(Sequences::new(state, tensors)))
}

/// True if the instance can be used again: errors of the client leave it usable.
pub(crate) fn is_sound<T>(result: &Result<T>) -> bool {
    !matches!(result, Err(Error::Failed(_) | Error::Unavailable(_) | Error::Exhausted(_)))
}

#[cfg(test)]
mod tests;
