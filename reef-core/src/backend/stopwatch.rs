//! Device time of launches, by the device's own clock.

use crate::backend::command::Launch;
use crate::backend::device::Device;
use crate::backend::error::Result;
use crate::backend::info::Seq;
use crate::backend::queue::Queue;
use crate::backend::types::Event;
use std::time::Duration;

/// A queue with an event on each side of what is timed.
///
/// The host is in the measurement only as far as it launches more slowly than the device runs.
///
/// ```
/// use reef_core::{Cells, Device, Priority, Stopwatch};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let queue = device.queue(Priority::RealTime, None)?;
/// let launch = Cells::new(&device, 4)?.launch(7, 100);
/// let time = Stopwatch::new(&device, queue)?.min_time(5, [&launch])?;
/// println!("four blocks take {time:?}");
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Stopwatch<D: Device> {
    queue: D::Queue,
    events: [D::Event; 2],
    next: u64,
}

impl<D: Device> Stopwatch<D> {
    /// Times what runs on `queue`, which must be fresh.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn new(device: &D, queue: D::Queue) -> Result<Self> {
        Ok(Self { queue, events: [device.event()?, device.event()?], next: 0 })
    }

    /// Runs `launches` one after the other; returns the time from the first's start to the last's
    /// end. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn time<'a>(
        &mut self,
        launches: impl IntoIterator<Item = &'a Launch<D>>,
    ) -> Result<Duration> {
        let begin = self.take_seq();
        self.queue.record(begin, &self.events[0])?;
        for launch in launches {
            let seq = self.take_seq();
            self.queue.launch(seq, launch, None)?;
        }
        let end = self.take_seq();
        self.queue.record(end, &self.events[1])?;
        while self.queue.completed()? < Seq(self.next) {
            std::thread::yield_now();
        }
        let reached = self.events.each_ref().map(|event| event.reached().unwrap_or_default());
        Ok(reached[1].saturating_sub(reached[0]))
    }

    /// Returns the shortest of `repeats` times, as the others were disturbed; `Duration::MAX` if
    /// that is 0.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`time`](Self::time).
    pub fn min_time<'a>(
        &mut self,
        repeats: usize,
        launches: impl IntoIterator<Item = &'a Launch<D>> + Clone,
    ) -> Result<Duration> {
        let mut shortest = Duration::MAX;
        for _ in 0..repeats {
            shortest = shortest.min(self.time(launches.clone())?);
        }
        Ok(shortest)
    }

    fn take_seq(&mut self) -> Seq {
        self.next += 1;
        Seq(self.next - 1)
    }
}
