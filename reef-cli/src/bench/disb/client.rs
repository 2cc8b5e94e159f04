//! One task's requests, in the six phases that DISB measures.
//!
//! Copies to and from the device are part of an inference here, so `copyInput` and `copyOutput` take no
//! time of their own; the picture is in memory, so `prepareInput` takes none either.

use super::part::Launch;
use crate::bench::time::{histogram, note};
use crate::networks::Named;
use anyhow::Result;
use hdrhistogram::Histogram;
use reef::op::Operators;
use reef::{BeClient, ClientConfig, Command, Device, Dispatcher, RtClient, Task};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// How long each phase of a request took, or of many.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Phases {
    /// The picture becomes what the network reads.
    pub(super) preprocess: Duration,
    /// From submission to the end, copies included.
    pub(super) infer: Duration,
    /// The output is read.
    pub(super) postprocess: Duration,
}

impl Phases {
    pub(super) fn total(&self) -> Duration {
        self.preprocess + self.infer + self.postprocess
    }

    fn add(&mut self, other: &Self) {
        self.preprocess += other.preprocess;
        self.infer += other.infer;
        self.postprocess += other.postprocess;
    }

    /// The mean of `n`.
    pub(super) fn over(&self, n: u64) -> Self {
        let mean = |sum: Duration| match n {
            0 => Duration::ZERO,
            n => Duration::from_nanos((sum.as_nanos() / u128::from(n)) as u64),
        };
        Self {
            preprocess: mean(self.preprocess),
            infer: mean(self.infer),
            postprocess: mean(self.postprocess),
        }
    }
}

/// What a task experienced.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    pub(super) sum: Phases,
    /// Of whole requests, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    /// Moments to launch that were missed.
    pub(super) skipped: u64,
    /// Requests that had not finished long after the end.
    pub(super) unfinished: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self { sum: Phases::default(), latency: histogram(), skipped: 0, unfinished: 0 }
    }
}

impl Requests {
    pub(super) fn note(&mut self, phases: &Phases) {
        self.sum.add(phases);
        note(&mut self.latency, phases.total());
    }

    /// With those of another task.
    pub(super) fn merge(&mut self, other: &Self) {
        self.sum.add(&other.sum);
        self.latency.add(&other.latency).expect("histograms of one kind");
        self.skipped += other.skipped;
        self.unfinished += other.unfinished;
    }

    pub(super) fn mean(&self) -> Phases {
        self.sum.over(self.latency.len())
    }
}

/// What a client submits.
pub(super) struct Work<D: Operators> {
    pub(super) network: Named<D>,
    pub(super) picture: Vec<f32>,
}

/// A task with its place in a dispatcher.
pub(super) struct Client<'a, D: Operators> {
    device: &'a D,
    work: &'a Work<D>,
    seat: Seat<D>,
}

enum Seat<D: Device> {
    RealTime(RtClient<D>, Task<D>),
    BestEffort(BeClient<D>, Arc<[Command<D>]>),
}

impl<'a, D: Operators> Client<'a, D> {
    pub(super) fn real_time(
        device: &'a D,
        dispatcher: &Dispatcher<D>,
        work: &'a Work<D>,
        graph: usize,
    ) -> Result<Self> {
        let task = Task::new(work.network.network.graphs(graph)?)?;
        Ok(Self { device, work, seat: Seat::RealTime(dispatcher.real_time()?, task) })
    }

    pub(super) fn best_effort(
        device: &'a D,
        dispatcher: &Dispatcher<D>,
        work: &'a Work<D>,
        graph: usize,
        config: ClientConfig,
    ) -> Result<Self> {
        let commands = work.network.network.graphs(graph)?;
        Ok(Self { device, work, seat: Seat::BestEffort(dispatcher.best_effort(config)?, commands) })
    }
}

impl<D: Operators> Launch for Client<'_, D> {
    fn clock(&self) -> Duration {
        self.device.clock()
    }

    fn request(&mut self, until: Duration) -> Result<Option<Phases>> {
        let clock = || self.device.clock();
        let network = &self.work.network.network;
        let begin = clock();
        network.stage_input(&self.work.picture)?;
        let staged = clock();
        match &mut self.seat {
            Seat::RealTime(client, task) => drop(client.run(task)?),
            Seat::BestEffort(client, commands) => {
                let last = client.submit(commands)?;
                while !client.wait_for(last, Duration::from_millis(50))? {
                    if clock() > until {
                        return Ok(None);
                    }
                }
            }
        }
        let inferred = clock();
        network.staged_output()?;
        Ok(Some(Phases {
            preprocess: staged - begin,
            infer: inferred - staged,
            postprocess: clock() - inferred,
        }))
    }
}
