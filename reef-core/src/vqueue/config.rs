//! Sizes and times of a virtual queue.

use crate::backend::command::Command;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::PreemptLevel;
use std::time::Duration;

/// Sizes and times of a virtual queue.
///
/// Made of [`Config::default`] and what differs:
/// `Config::default().window(2).level(PreemptLevel::All)`. The names in brackets are those of
/// REEF's CUDA port (`RFconfig`). Its `batchSize` and `taskTimeout` have no counterpart: commands
/// are launched one at a time, and no scheduler asks for how long a queue has had no work.
///
/// ```
/// use reef_core::{Config, PreemptLevel};
///
/// let config = Config::default().window(2).level(PreemptLevel::All);
/// assert_eq!((config.window, config.capacity), (2, 1024));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Commands that can wait, a power of two and at most [`MAX_CAPACITY`](Self::MAX_CAPACITY).
    pub capacity: usize,
    /// Commands with the hardware at once (`queueSize`). Small is quick to preempt; 1 leaves gaps.
    pub window: u64,
    /// Depth of [`VirtualQueue::preempt`](crate::VirtualQueue::preempt) (`preemptLevel`).
    pub level: PreemptLevel,
    /// Time for which an idle worker and a waiting client poll before they sleep.
    pub spin: Duration,
    /// Time that the device may take to return what it has of the queue, once it was told to stop
    /// it deeper than [`HostQueue`](PreemptLevel::HostQueue), or the queue is to end. Then the
    /// queue ends with [`DeviceLost`](Error::DeviceLost), and nothing waits for what is left of it.
    /// `None` is for ever.
    pub drain_timeout: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            capacity: 1024,
            window: 4,
            level: PreemptLevel::HostQueue,
            spin: Duration::from_micros(20),
            drain_timeout: Some(DRAIN_TIMEOUT),
        }
    }
}

impl Config {
    /// Window of graphs that keeps a device busy. Each graph is many launches, and a preemption
    /// would undo more of them in a wider window.
    pub const GRAPHS: u64 = 2;

    /// Largest [`capacity`](field@Self::capacity): the slots of a queue are allocated when it is
    /// opened.
    pub const MAX_CAPACITY: usize = 1 << 16;

    /// With this [`capacity`](field@Self::capacity).
    #[must_use]
    pub fn capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// With this [`window`](field@Self::window).
    #[must_use]
    pub fn window(self, window: u64) -> Self {
        Self { window, ..self }
    }

    /// With a [`window`](field@Self::window) of [`GRAPHS`](Self::GRAPHS) if there are any among
    /// `commands`, else unchanged.
    #[must_use]
    pub fn window_for<D: Device>(self, commands: &[Command<D>]) -> Self {
        let has_graphs = commands.iter().any(|command| matches!(command, Command::Graph(_)));
        if has_graphs { self.window(Self::GRAPHS) } else { self }
    }

    /// With this [`level`](field@Self::level).
    #[must_use]
    pub fn level(self, level: PreemptLevel) -> Self {
        Self { level, ..self }
    }

    /// With this [`drain_timeout`](field@Self::drain_timeout).
    #[must_use]
    pub fn drain_timeout(self, drain_timeout: impl Into<Option<Duration>>) -> Self {
        Self { drain_timeout: drain_timeout.into(), ..self }
    }

    /// With this [`spin`](field@Self::spin).
    #[must_use]
    pub fn spin(self, spin: Duration) -> Self {
        Self { spin, ..self }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let (capacity, max) = (self.capacity, Self::MAX_CAPACITY);
        if !capacity.is_power_of_two() || capacity > max {
            return Err(Error::invalid(
                "capacity",
                format!("must be a power of two up to {max}, got {capacity}"),
            ));
        }
        if !(1..=MAX_WINDOW).contains(&self.window) {
            return Err(Error::invalid(
                "window",
                format!("must be from 1 to {MAX_WINDOW}, got {}", self.window),
            ));
        }
        Ok(())
    }
}

/// Longer than any block takes that is meant to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Far more than any device takes, and sums of two don't overflow.
const MAX_WINDOW: u64 = 1 << 32;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::dispatch::dispatcher::Dispatcher;
    use crate::limits::ClientConfig;
    use crate::scheduler::Reef;
    use crate::testing::fake::{Fake, kernel};

    #[test]
    fn capacity_has_bounds() {
        let open = |capacity| {
            let dispatcher =
                Dispatcher::start(&Fake::default(), Reef::default()).expect("it starts");
            let config = ClientConfig::default().queue(Config::default().capacity(capacity));
            dispatcher.best_effort(config)?.run(&[kernel()])
        };
        for good in [1, 1024, Config::MAX_CAPACITY] {
            assert_eq!(open(good), Ok(()), "{good}");
        }
        for bad in [0, 3, 2 * Config::MAX_CAPACITY, 1 << 40, 1 << 63] {
            let said = open(bad).expect_err("out of range").to_string();
            assert_eq!(said, format!("capacity: must be a power of two up to 65536, got {bad}"));
        }
    }
}
