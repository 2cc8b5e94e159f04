//! Lanes: threads that take requests from a queue and run them, alone or together.

use crate::class::Class;
use crate::engine::api::{Instance, Instances};
use crate::error::{Error, Result};
use crate::models::loaded_model::{LoadedModel, is_sound};
use crate::models::shaped::variant::Variant;
use crate::observe::tracer::InstanceId;
use crate::requests::batch::{Batch, Batching, Outcome, Wide};
use crate::requests::job::{Job, Phases};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

impl LoadedModel {
    /// The thread of a lane.
    pub(super) fn serve(&self, class: Class, id: &InstanceId) {
        while let Some(job) = self.queue(class).pop() {
            match self.batching(class, &job) {
                None => self.serve_one(class, id, job),
                Some(batching) => {
                    self.serve_all(class, id, Batch::gather(job, self.queue(class), batching));
                }
            }
        }
    }

    /// How many rows may run with those of `job`: no more than there is a network for, or it would
    /// wait in vain.
    fn batching(&self, class: Class, job: &Job) -> Option<Batching> {
        let batching = self.spec.batching[class as usize]?;
        let rows = job.rows.as_ref()?;
        let widest = self.variants.widest(&rows.shapes());
        let max = batching.max.min(widest);
        (max > rows.count).then_some(Batching { max, ..batching })
    }

    fn serve_one(&self, class: Class, id: &InstanceId, job: Job) {
        let mut phases = Phases::default();
        let run = |instance: &mut dyn Instance| job.run(instance, &mut phases);
        let how = on_instance(&*job.instances, class, run, is_sound).and_then(|how| how);
        self.answer(class, id, job, (how, phases));
    }

    /// Together, if there is a network with as many rows; a few of several are alone in theirs.
    fn serve_all(&self, class: Class, id: &InstanceId, batch: Batch) {
        let wide = match &*batch.jobs {
            [_] => None,
            _ => self.wide(&batch),
        };
        let Some((rows, variant)) = wide else {
            return batch.jobs.into_iter().for_each(|job| self.serve_one(class, id, job));
        };
        let wide = Wide { inputs: &variant.inputs, outputs: &variant.outputs, rows };
        if !batch.fits(wide) {
            return batch.jobs.into_iter().for_each(|job| self.serve_one(class, id, job));
        }
        self.variants.note_use(&variant);
        let run = |instance: &mut dyn Instance| batch.run(instance, wide);
        let are_sound = |outcomes: &Vec<Outcome>| outcomes.iter().all(|(how, _)| is_sound(how));
        let outcomes = on_instance(&*variant, class, run, are_sound).unwrap_or_else(|error| {
            batch.jobs.iter().map(|_| (Err(error.clone()), Phases::default())).collect()
        });
        let served = outcomes.iter().filter(|(how, _)| how.is_ok()).count() as u64;
        self.stats.note_together(served);
        let each = batch.jobs.into_iter().zip(outcomes);
        each.for_each(|(job, outcome)| self.answer(class, id, job, outcome));
    }

    /// The network for all rows of `batch` with the fewest.
    fn wide(&self, batch: &Batch) -> Option<(usize, Arc<Variant>)> {
        let shapes = batch.jobs.first()?.rows.as_ref()?.shapes();
        self.variants.with_rows(&shapes, batch.rows())
    }

    fn answer(&self, class: Class, id: &InstanceId, job: Job, (how, phases): Outcome) {
        let how = how.map_err(|error| self.node().told(error));
        self.note_run(id, class, job.client, &phases, how.as_ref().map(drop));
        let _ = job.reply.send((how, phases)); // the client may be gone
    }
}

/// What `run` makes of an instance, which is kept if it is sound afterwards.
fn on_instance<T>(
    instances: &dyn Instances,
    class: Class,
    run: impl FnOnce(&mut dyn Instance) -> T,
    is_sound: impl Fn(&T) -> bool,
) -> Result<T> {
    let mut instance = instances.take(class)?;
    let made = catch_unwind(AssertUnwindSafe(|| run(&mut *instance)));
    let made = made.map_err(|_| Error::Failed("the lane panicked".into()))?; // and has printed why
    if is_sound(&made) {
        instances.give(class, instance);
    }
    Ok(made)
}
