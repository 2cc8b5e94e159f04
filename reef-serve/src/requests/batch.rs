//! Requests that run together: one behind the other in the first size of each tensor.

use crate::class::Class;
use crate::engine::api::{Instance, Ran, Run};
use crate::engine::shared::{SharedPart, SharedParts};
use crate::error::{Error, Result};
use crate::requests::job::{Given, Job, Phases, Wanted};
use crate::requests::queue::Queue;
use crate::tensor::TensorInfos;
use std::time::{Duration, Instant};

/// How requests are gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batching {
    /// Most rows.
    pub(crate) max: usize,
    /// How long the first request waits for more.
    pub(crate) delay: Duration,
}

/// A network for several rows.
#[derive(Clone, Copy)]
pub(crate) struct Wide<'a> {
    pub(crate) inputs: &'a TensorInfos,
    pub(crate) outputs: &'a TensorInfos,
    pub(crate) rows: usize,
}

impl Wide<'_> {
    /// The first byte of row `first` of a tensor.
    fn place(&self, infos: &TensorInfos, index: usize, first: usize) -> usize {
        let info = &infos.each[index];
        info.offset + first * (info.bytes() / self.rows)
    }
}

/// Requests with the same sizes but for the first, in the order of their rows.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) jobs: Vec<Job>,
}

/// What became of a request.
pub(crate) type Outcome = (Result<Vec<Vec<u8>>>, Phases);

impl Batch {
    /// `first`, and those of `queue` that go with it. It waits for more for `delay`, but for no
    /// more than half of the time that any of them has left, and not while others wait in the
    /// queue.
    pub(crate) fn gather(first: Job, queue: &Queue, batching: Batching) -> Self {
        let until = Instant::now() + batching.delay;
        let mut batch = Self { jobs: vec![first] };
        while let Some(rows) = batch.jobs[0].rows.clone() {
            let left = batching.max.saturating_sub(batch.rows());
            let fits = |job: &Job| {
                let other = job.rows.as_ref();
                batch.may_pay_for(job)
                    && other.is_some_and(|other| other.others == rows.others && other.count <= left)
            };
            if left == 0 {
                break;
            }
            match queue.pop_like(fits, until.min(batch.halfway())) {
                Some(job) => batch.jobs.push(job),
                None => break,
            }
        }
        batch
    }

    /// A real-time run is charged to one account.
    fn may_pay_for(&self, job: &Job) -> bool {
        let first = &self.jobs[0];
        let stated = |job: &Job| job.stated.then_some(job.client);
        first.priority.class() != Class::RealTime
            || (first.tenant.who == job.tenant.who && stated(first) == stated(job))
    }

    /// When half of the time is over that its most urgent request had left.
    fn halfway(&self) -> Instant {
        let now = Instant::now();
        let left = self.jobs.iter().map(|job| job.deadline.saturating_duration_since(now)).min();
        now + left.unwrap_or_default() / 2
    }

    /// Rows of all.
    pub(crate) fn rows(&self) -> usize {
        self.jobs.iter().map(Job::row_count).sum()
    }

    /// Whether outputs of `wide` are rows of those that each has alone; else they can't be shared
    /// out.
    pub(crate) fn fits(&self, wide: Wide<'_>) -> bool {
        let row = |index: usize| wide.outputs.each[index].bytes() / wide.rows.max(1);
        let fits = |job: &Job| {
            job.outputs.iter().all(|wanted| wanted.bytes == job.row_count() * row(wanted.index))
        };
        self.jobs.iter().all(fits)
    }

    /// Runs all on an instance of a network with as many rows at least; what is too late is left
    /// out. Says what became of each.
    pub(crate) fn run(&self, instance: &mut dyn Instance, wide: Wide<'_>) -> Vec<Outcome> {
        let began = Instant::now();
        let mut outcomes: Vec<Outcome> = self.jobs.iter().map(|job| job.begin(began)).collect();
        let firsts = self.firsts();
        for ((job, first), (how, _)) in self.jobs.iter().zip(&firsts).zip(&mut outcomes) {
            if how.is_ok() {
                *how = job.write_rows(instance, wide, *first).map(|()| Vec::new());
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
        for ((job, first), (how, phases)) in self.jobs.iter().zip(&firsts).zip(&mut outcomes) {
            (phases.input, phases.infer, phases.delay) = (written - began, infer, device.delay);
            let part = device.device.mul_f64(job.row_count() as f64 / self.rows().max(1) as f64);
            job.tenant.charge(job.priority.class(), part, infer);
            if how.is_ok() {
                let reading = Instant::now();
                *how = job.read_rows(instance, wide, *first);
                phases.output = reading.elapsed();
            }
        }
        outcomes
    }

    /// Rows before those of each.
    fn firsts(&self) -> Vec<usize> {
        let before = |sum: &mut usize, job: &Job| {
            let first = *sum;
            *sum += job.row_count();
            Some(first)
        };
        self.jobs.iter().scan(0, before).collect()
    }

    /// For as long as any has time, and is waited for.
    fn run_written(
        &self,
        instance: &mut dyn Instance,
        wide: Wide<'_>,
        outcomes: &[Outcome],
        now: Instant,
    ) -> Result<Ran> {
        let live = || self.jobs.iter().zip(outcomes).filter(|(_, (how, _))| how.is_ok());
        let left = live().map(|(job, _)| job.deadline.saturating_duration_since(now)).max();
        let Some(time) = left else { return Ok(Default::default()) }; // nobody's any more
        let gone = || live().all(|(job, _)| job.is_gone() || job.deadline <= Instant::now());
        let account = &self.jobs[0].account;
        let parts = live_parts(self.jobs.iter().zip(self.firsts()).zip(outcomes), wide);
        let shared = SharedParts { inputs: &parts[0], outputs: &parts[1] };
        instance.run(Run { slot: None, shared, time, gone: &gone, account, soon: None })
    }
}

/// What of the inputs and of the outputs of those that have not failed the device copies itself.
fn live_parts<'a>(
    jobs: impl Iterator<Item = ((&'a Job, usize), &'a Outcome)>,
    wide: Wide<'_>,
) -> [Vec<SharedPart>; 2] {
    let [mut inputs, mut outputs] = <[Vec<SharedPart>; 2]>::default();
    for ((job, first), _) in jobs.filter(|(_, (how, _))| how.is_ok()) {
        let place = |infos: &TensorInfos, index: usize| wide.place(infos, index, first);
        let given = |given: &Given| given.part(place(wide.inputs, given.index));
        let wanted = |wanted: &Wanted| wanted.part(place(wide.outputs, wanted.index));
        inputs.extend(job.inputs.iter().filter_map(given));
        outputs.extend(job.outputs.iter().filter_map(wanted));
    }
    [inputs, outputs]
}

/// All that have not failed by themselves fail with this.
fn failed(mut outcomes: Vec<Outcome>, error: &Error) -> Vec<Outcome> {
    for (how, _) in outcomes.iter_mut().filter(|(how, _)| how.is_ok()) {
        *how = Err(error.clone());
    }
    outcomes
}

/// Zeros in the rows that no request has.
fn pad(instance: &mut dyn Instance, wide: Wide<'_>, rows: usize) -> Result<()> {
    for info in wide.inputs.each.iter().filter(|_| rows < wide.rows) {
        let row = info.bytes() / wide.rows;
        instance.write(info.offset + rows * row, &vec![0; (wide.rows - rows) * row])?;
    }
    Ok(())
}

impl Job {
    fn row_count(&self) -> usize {
        self.rows.as_ref().map_or(1, |rows| rows.count)
    }

    /// Nothing yet, or that it is too late.
    fn begin(&self, now: Instant) -> Outcome {
        let queue = now.saturating_duration_since(self.arrived);
        let how = match self.deadline <= now {
            true => Err(Error::Deadline(format!("timed out after {queue:?} in the queue"))),
            false => Ok(Vec::new()),
        };
        (how, Phases { queue, ..Phases::default() })
    }

    fn write_rows(&self, instance: &mut dyn Instance, wide: Wide<'_>, first: usize) -> Result<()> {
        self.inputs.iter().try_for_each(|given| {
            given.write_at(instance, wide.place(wide.inputs, given.index, first))
        })
    }

    fn read_rows(
        &self,
        instance: &mut dyn Instance,
        wide: Wide<'_>,
        first: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let read = self
            .outputs
            .iter()
            .map(|wanted| wanted.read_at(instance, wide.place(wide.outputs, wanted.index, first)));
        read.collect()
    }
}
