//! Workers: threads that take requests from a queue and run them, alone or in batches.

use crate::class::Class;
use crate::engine::api::{Instance, Instances};
use crate::engine::call::WorkerId;
use crate::error::{Error, Result};
use crate::models::loaded_model::{LoadedModel, is_sound};
use crate::models::shaped::variant::Variant;
use crate::observe::tracer::InstanceId;
use crate::requests::batch::{Batch, BatchNetwork, Batching, Outcome};
use crate::requests::job::{Job, Phases};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a worker stays awake after it has answered a real-time request to a program. A
/// client that asks again at once has the answer, and the daemon its request, after three wake-ups
/// of threads, which take up to 30 µs each on a virtual machine.
const AWAKE_TIME: Duration = Duration::from_micros(200);

/// Time for which a thread of connections stays awake for the answer of a program to a real-time
/// request: as long as the worker that reads it.
const ANSWER_TIME: Duration = Duration::from_micros(100);

/// A worker thread of a model.
struct Worker<'a> {
    id: WorkerId,
    /// Name in traces.
    instance_id: &'a InstanceId,
    /// True if it keeps its instance: a process has the state of sequences.
    keeps: bool,
    kept: Option<Box<dyn Instance>>,
}

impl LoadedModel {
    /// Loop of a worker thread.
    pub(super) fn serve(&self, id: WorkerId, instance_id: &InstanceId) {
        let mut worker = Worker { id, instance_id, keeps: self.spec.is_process(), kept: None };
        let (class, queue) = (id.class, self.queue(id.class));
        let mut awake = None;
        while let Some(job) = queue.pop(id.number, awake) {
            let left = job.deadline.saturating_duration_since(Instant::now());
            let stay = self.stay(class, left, &|| job.is_gone());
            let _stay = match stay {
                Ok(stay) => stay,
                Err(error) => {
                    self.answer(&worker, job, Err(error), Phases::default());
                    continue;
                }
            };
            match self.batching(class, &job) {
                None => self.serve_one(&mut worker, job),
                Some(batching) => {
                    let batch = Batch::gather(job, queue, id.number, batching);
                    self.serve_all(&mut worker, batch);
                }
            }
            awake = self.stays_awake(class).then(|| Instant::now() + AWAKE_TIME);
        }
        if let Some(instance) = worker.kept {
            self.base.give(class, instance); // its process ends with the others
        }
    }

    /// Returns until when the thread that waits for an answer does not sleep.
    pub(crate) fn awake_for_answer(&self, class: Class) -> Option<Instant> {
        self.stays_awake(class).then(|| Instant::now() + ANSWER_TIME)
    }

    /// Real-time requests to programs are worth a moment of a processor. Other answers take longer,
    /// or wait for a device.
    fn stays_awake(&self, class: Class) -> bool {
        class == Class::RealTime && self.spec.is_process()
    }

    /// Returns the batching for `job`: at most the rows of an existing network, or it would wait in
    /// vain.
    fn batching(&self, class: Class, job: &Job) -> Option<Batching> {
        let batching = self.spec.batching[class as usize]?;
        let rows = job.rows.as_ref()?;
        let max = if self.spec.is_process() {
            batching.max
        } else {
            batching.max.min(self.variants.widest(&rows.shapes()))
        };
        (max > rows.count).then_some(Batching { max, ..batching })
    }

    fn serve_one(&self, worker: &mut Worker<'_>, job: Job) {
        let (mut phases, id) = (Phases::default(), worker.id);
        let others = || self.others_wait(id);
        let run = |instance: &mut dyn Instance| job.run(instance, &others, &mut phases);
        let result = worker.on_instance(&*job.instances, run, is_sound).and_then(|result| result);
        self.answer(worker, job, result, phases);
    }

    /// True if another request waits for this worker, or another model for the room on the GPU that
    /// its process has.
    fn others_wait(&self, id: WorkerId) -> bool {
        let for_room = || self.base.loaded().is_ok_and(|loaded| loaded.is_in_the_way(id.class));
        self.queue(id.class).has_for(id.number) || for_room()
    }

    /// Runs a batch by a process, or on a network with enough rows; otherwise each request alone.
    fn serve_all(&self, worker: &mut Worker<'_>, batch: Batch) {
        if self.spec.is_process() && batch.jobs.len() > 1 {
            return self.run_all(worker, batch, &*self.base, Batch::call);
        }
        let wide = match &*batch.jobs {
            [_] => None,
            _ => self.wide(&batch),
        };
        let Some((rows, variant)) = wide else {
            return batch.jobs.into_iter().for_each(|job| self.serve_one(worker, job));
        };
        let wide = BatchNetwork { inputs: &variant.inputs, outputs: &variant.outputs, rows };
        if !batch.fits(wide) {
            return batch.jobs.into_iter().for_each(|job| self.serve_one(worker, job));
        }
        self.variants.note_use(&variant);
        self.run_all(worker, batch, &*variant, |batch, instance| batch.run(instance, wide));
    }

    /// Runs a batch on an instance, and answers its requests.
    fn run_all(
        &self,
        worker: &mut Worker<'_>,
        batch: Batch,
        instances: &dyn Instances,
        run: impl FnOnce(&Batch, &mut dyn Instance) -> Vec<Outcome>,
    ) {
        let run = |instance: &mut dyn Instance| run(&batch, instance);
        let are_sound =
            |outcomes: &Vec<Outcome>| outcomes.iter().all(|(result, _)| is_sound(result));
        let outcomes = worker.on_instance(instances, run, are_sound).unwrap_or_else(|error| {
            batch.jobs.iter().map(|_| (Err(error.clone()), Phases::default())).collect()
        });
        let served = outcomes.iter().filter(|(result, _)| result.is_ok()).count() as u64;
        self.stats.note_batch(served);
        let each = batch.jobs.into_iter().zip(outcomes);
        each.for_each(|(job, outcome)| self.answer(worker, job, outcome.0, outcome.1));
    }

    /// Returns the network with the fewest rows that takes all of `batch`.
    fn wide(&self, batch: &Batch) -> Option<(usize, Arc<Variant>)> {
        let shapes = batch.jobs.first()?.rows.as_ref()?.shapes();
        self.variants.with_rows(&shapes, batch.rows())
    }

    fn answer(&self, worker: &Worker<'_>, job: Job, result: Result<Vec<Vec<u8>>>, phases: Phases) {
        let result = result.map_err(|error| self.node().diagnose(error));
        let (instance, class) = (worker.instance_id, worker.id.class);
        self.note_run(instance, class, job.client, &phases, result.as_ref().map(drop));
        if let Some(sequence) = job.sequence() {
            let _ = sequence.cell.worker.set(worker.id); // a request is answered once
        }
        let _ = job.reply.send((result, phases)); // the client may be gone
    }
}

impl Worker<'_> {
    /// Runs `run` on an instance, which is reused if it is sound afterwards or recovers by itself.
    fn on_instance<T>(
        &mut self,
        instances: &dyn Instances,
        run: impl FnOnce(&mut dyn Instance) -> T,
        is_sound: impl Fn(&T) -> bool,
    ) -> Result<T> {
        let mut instance = match self.kept.take() {
            Some(kept) => kept,
            None => instances.take(self.id.class)?,
        };
        let made = catch_unwind(AssertUnwindSafe(|| run(&mut *instance)));
        // The panic has been printed.
        let made = made.map_err(|_| Error::Failed("the worker panicked".into()))?;
        if is_sound(&made) || instance.recovers() {
            if self.keeps {
                self.kept = Some(instance);
            } else {
                instances.give(self.id.class, instance);
            }
        }
        Ok(made)
    }
}
