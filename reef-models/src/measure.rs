//! Measures how long the launches of a network take on a device.

use crate::Result;
use crate::network::Network;
use crate::profile::{Latencies, Profiles};
use reef_core::dkp::{Profile, Resources};
use reef_core::op::Operators;
use reef_core::{Event, Launch, Priority, Queue, Seq};
use std::time::Duration;

/// Times each launch is measured; the least counts, as the others were disturbed.
const REPEATS: usize = 3;

/// Runs each launch of `network` alone on an idle device and notes its time.
///
/// What a round of `n` blocks per unit takes is derived from the whole: all rounds of a launch are
/// taken to be equal.
///
/// # Errors
///
/// The device's.
pub fn measure<D: Operators>(device: &D, network: &Network<D>) -> Result<Latencies> {
    let mut stopwatch = Stopwatch::new(device)?;
    let mut latencies = Latencies::default();
    let (units, mut total) = (device.info().units, Duration::ZERO);
    for (launch, name) in network.launches().zip(network.step_names()) {
        let mut least = Duration::MAX;
        for _ in 0..REPEATS {
            least = least.min(stopwatch.time(launch)?);
        }
        total += least;
        latencies.insert(&name.launch, &profile(launch, least, units));
    }
    latencies.micros = total.as_micros() as u32;
    Ok(latencies)
}

/// As [`measure`], ready to be attached.
///
/// # Errors
///
/// As [`measure`].
pub fn measured<D: Operators>(device: &D, network: &Network<D>) -> Result<Profiles> {
    Ok(measure(device, network)?.profiles())
}

fn profile<D: Operators>(launch: &Launch<D>, whole: Duration, units: u32) -> Profile {
    let micros = whole.as_micros().max(1) as u32;
    let rounds = launch.blocks().div_ceil(units).max(1);
    let threads = launch.block().iter().product();
    Profile {
        blocks: launch.blocks(),
        resources: Resources { threads, ..Resources::default() },
        micros,
        round_micros: vec![micros.div_ceil(rounds)],
    }
}

/// A queue with an event on each side of a launch.
struct Stopwatch<D: Operators> {
    queue: D::Queue,
    events: [D::Event; 2],
    next: u64,
}

impl<D: Operators> Stopwatch<D> {
    fn new(device: &D) -> Result<Self> {
        let queue = device.queue(Priority::RealTime, None)?;
        Ok(Self { queue, events: [device.event()?, device.event()?], next: 0 })
    }

    fn time(&mut self, launch: &Launch<D>) -> Result<Duration> {
        let [begin, end] = &self.events;
        self.queue.record(Seq(self.next), begin)?;
        self.queue.launch(Seq(self.next + 1), launch, None)?;
        self.queue.record(Seq(self.next + 2), end)?;
        self.next += 3;
        while self.queue.completed()? < Seq(self.next) {
            std::thread::yield_now();
        }
        let reached = self.events.each_ref().map(|event| event.reached().unwrap_or_default());
        Ok(reached[1].saturating_sub(reached[0]))
    }
}
