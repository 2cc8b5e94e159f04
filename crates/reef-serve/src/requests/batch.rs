//! Requests that run together. For a network they are concatenated along the first dimension of
//! each tensor.

use crate::class::Class;
use crate::engine::api::{Instance, Run, RunTiming};
use crate::engine::shared::{SharedPart, SharedParts};
use crate::error::{Error, Result};
use crate::requests::job::{BoundInput, BoundOutput, Job, Phases};
use crate::requests::queue::Queue;
use crate::tensor::TensorInfos;
use std::time::{Duration, Instant};

/// Settings of batching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batching {
    /// Maximum number of rows.
    pub(crate) max: usize,
    /// Time that the first request waits for more.
    pub(crate) delay: Duration,
}

/// A network for several rows.
#[derive(Clone, Copy)]
pub(crate) struct BatchNetwork<'a> {
    pub(crate) inputs: &'a TensorInfos,
    pub(crate) outputs: &'a TensorInfos,
    pub(crate) rows: usize,
}

impl BatchNetwork<'_> {
    /// Returns the offset of row `first` of a tensor.
    fn place(&self, infos: &TensorInfos, index: usize, first: usize) -> usize {
        let info = &infos.each[index];
        info.offset + first * (info.bytes() / self.rows)
    }
}

/// Requests whose sizes differ in the first dimension only, in the order of their rows; any
/// requests of a program without rows.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) jobs: Vec<Job>,
}

/// Result of a request.
pub(crate) type Outcome = (Result<Vec<Vec<u8>>>, Phases);

impl Batch {
    /// Collects `first` and matching requests of `queue`. Waits up to `delay` for more, but at most
    /// half of the remaining time of each, and not while other requests for this worker wait in the
    /// queue.
    pub(crate) fn gather(first: Job, queue: &Queue, worker: usize, batching: Batching) -> Self {
        let until = Instant::now() + batching.delay;
        let mut batch = Self { jobs: vec![first] };
        while let Some(rows) = batch.jobs[0].rows.clone() {
            let left = batching.max.saturating_sub(batch.rows());
            let fits = |job: &Job| {
                let other = job.rows.as_ref();
                batch.shares_account(job)
                    && !batch.has_sequence_of(job)
                    && other.is_some_and(|other| other.others == rows.others && other.count <= left)
            };
            if left == 0 {
                break;
            }
            match queue.pop_like(worker, fits, until.min(batch.halfway())) {
                Some(job) => batch.jobs.push(job),
                None => break,
            }
        }
        batch
    }

    /// True if `job` may be charged to the account of this batch: a real-time run has one account.
    fn shares_account(&self, job: &Job) -> bool {
        let first = &self.jobs[0];
        let stated_client = |job: &Job| job.has_stated_rate.then_some(job.client);
        first.priority.class() != Class::RealTime
            || (first.tenant.principal == job.tenant.principal
                && stated_client(first) == stated_client(job))
    }

    /// True if a request of the same sequence is there: its client no longer waits for it, else the
    /// next one would not have had its turn.
    fn has_sequence_of(&self, job: &Job) -> bool {
        let number = |job: &Job| job.sequence().map(|sequence| sequence.number);
        number(job).is_some() && self.jobs.iter().any(|other| number(other) == number(job))
    }

    /// Time at which half of the remaining time of its most urgent request is over.
    fn halfway(&self) -> Instant {
        let now = Instant::now();
        let left = self.jobs.iter().map(|job| job.deadline.saturating_duration_since(now)).min();
        now + left.unwrap_or_default() / 2
    }

    /// Number of rows of all requests.
    pub(crate) fn rows(&self) -> usize {
        self.jobs.iter().map(Job::row_count).sum()
    }

    /// True if outputs of `wide` are rows of each request's outputs; otherwise they cannot be
    /// divided.
    pub(crate) fn fits(&self, wide: BatchNetwork<'_>) -> bool {
        let row = |index: usize| wide.outputs.each[index].bytes() / wide.rows.max(1);
        let fits = |job: &Job| {
            job.outputs.iter().all(|output| output.bytes == job.row_count() * row(output.index))
        };
        self.jobs.iter().all(fits)
    }

    /// Runs all on an instance of a network with at least as many rows; requests that are too late
    /// are left out. Returns the result of each.
    pub(crate) fn run(&self, instance: &mut dyn Instance, wide: BatchNetwork<'_>) -> Vec<Outcome> {
        let began = Instant::now();
        let mut outcomes: Vec<Outcome> = self.jobs.iter().map(|job| job.begin(began)).collect();
        let firsts = self.firsts();
        for ((job, first), (result, _)) in self.jobs.iter().zip(&firsts).zip(&mut outcomes) {
            if result.is_ok() {
                *result = job.write_rows(instance, wide, *first).map(|()| Vec::new());
            }
        }
        if let Err(error) = pad(instance, wide, self.rows()) {
            return failed(outcomes, &error);
        }
        let written = Instant::now();
        let ran = self.run_written(instance, wide, &outcomes, written);
        let infer = written.elapsed();
        let device = match ran {
            Ok(ran) => ran,
            Err(error) => return failed(outcomes, &error),
        };
        for ((job, first), (result, phases)) in self.jobs.iter().zip(&firsts).zip(&mut outcomes) {
            (phases.input, phases.infer, phases.delay) = (written - began, infer, device.delay);
            let part = device.device.mul_f64(job.row_count() as f64 / self.rows().max(1) as f64);
            job.tenant.charge(job.priority.class(), part, infer);
            if result.is_ok() {
                let reading = Instant::now();
                *result = job.read_rows(instance, wide, *first);
                phases.output = reading.elapsed();
            }
        }
        outcomes
    }

    /// Returns the number of rows before those of each request.
    fn firsts(&self) -> Vec<usize> {
        let before = |sum: &mut usize, job: &Job| {
            let first = *sum;
            *sum += job.row_count();
            Some(first)
        };
        self.jobs.iter().scan(0, before).collect()
    }

    /// Runs for as long as any request has time and a waiting client.
    fn run_written(
        &self,
        instance: &mut dyn Instance,
        wide: BatchNetwork<'_>,
        outcomes: &[Outcome],
        now: Instant,
    ) -> Result<RunTiming> {
        let live = || self.jobs.iter().zip(outcomes).filter(|(_, (result, _))| result.is_ok());
        let left = live().map(|(job, _)| job.deadline.saturating_duration_since(now)).max();
        let Some(time) = left else { return Ok(Default::default()) }; // no request is left
        let gone = || live().all(|(job, _)| job.is_gone() || job.deadline <= Instant::now());
        let account = &self.jobs[0].account;
        let parts = shared_parts(self.jobs.iter().zip(self.firsts()).zip(outcomes), wide);
        let shared = SharedParts { inputs: &parts[0], outputs: &parts[1] };
        instance.run(Run { slot: None, shared, time, gone: &gone, account, notice: None })
    }
}

/// Returns the parts of inputs and outputs that the device copies itself, for requests that have
/// not failed.
fn shared_parts<'a>(
    jobs: impl Iterator<Item = ((&'a Job, usize), &'a Outcome)>,
    wide: BatchNetwork<'_>,
) -> [Vec<SharedPart>; 2] {
    let [mut inputs, mut outputs] = <[Vec<SharedPart>; 2]>::default();
    for ((job, first), _) in jobs.filter(|(_, (result, _))| result.is_ok()) {
        let place = |infos: &TensorInfos, index: usize| wide.place(infos, index, first);
        let source = |input: &BoundInput| input.part(place(wide.inputs, input.index));
        let target = |output: &BoundOutput| output.part(place(wide.outputs, output.index));
        inputs.extend(job.inputs.iter().filter_map(source));
        outputs.extend(job.outputs.iter().filter_map(target));
    }
    [inputs, outputs]
}

/// Fails all requests that have not failed already.
fn failed(mut outcomes: Vec<Outcome>, error: &Error) -> Vec<Outcome> {
    for (result, _) in outcomes.iter_mut().filter(|(result, _)| result.is_ok()) {
        *result = Err(error.clone());
    }
    outcomes
}

/// Writes zeros to the rows without a request.
fn pad(instance: &mut dyn Instance, wide: BatchNetwork<'_>, rows: usize) -> Result<()> {
    for info in wide.inputs.each.iter().filter(|_| rows < wide.rows) {
        let row = info.bytes() / wide.rows;
        instance.write(info.offset + rows * row, &vec![0; (wide.rows - rows) * row])?;
    }
    Ok(())
}

impl Job {
    pub(super) fn row_count(&self) -> usize {
        self.rows.as_ref().map_or(1, |rows| rows.count)
    }

    /// Returns an empty result, or an error if it is too late.
    pub(super) fn begin(&self, now: Instant) -> Outcome {
        let queue = now.saturating_duration_since(self.arrived);
        let result = if self.deadline <= now {
            Err(Error::Deadline(format!("timed out after {queue:?} in the queue")))
        } else {
            Ok(Vec::new())
        };
        (result, Phases { queue, ..Phases::default() })
    }

    fn write_rows(
        &self,
        instance: &mut dyn Instance,
        wide: BatchNetwork<'_>,
        first: usize,
    ) -> Result<()> {
        self.inputs.iter().try_for_each(|input| {
            input.write_at(instance, wide.place(wide.inputs, input.index, first))
        })
    }

    fn read_rows(
        &self,
        instance: &mut dyn Instance,
        wide: BatchNetwork<'_>,
        first: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let read = self
            .outputs
            .iter()
            .map(|output| output.read_at(instance, wide.place(wide.outputs, output.index, first)));
        read.collect()
    }
}
