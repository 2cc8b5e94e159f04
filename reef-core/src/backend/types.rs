//! The types that a backend names; commands are made of them.

use std::fmt::Debug;
use std::time::Duration;

/// Names a backend's types, and does nothing.
///
/// Commands are generic over it, so that they depend on the types that they are made of and not on
/// a device.
///
/// ```
/// use reef_core::{Backend, Command};
/// use reef_cpu::Cpu;
///
/// /// Needs no open device.
/// fn launches<B: Backend>(commands: &[Command<B>]) -> usize {
///     commands.iter().filter(|command| matches!(command, Command::Launch(_))).count()
/// }
///
/// assert_eq!((Cpu::NAME, launches::<Cpu>(&[])), ("cpu", 0));
/// ```
pub trait Backend: Clone + Debug + Send + Sync + 'static {
    /// The name users type: `"cuda"`, `"hip"`, `"cpu"`.
    const NAME: &'static str;

    /// Memory of the device, or of the host pinned for it; freed when the last clone is dropped.
    type Buffer: Clone + Debug + Send + Sync;
    /// A function ready to launch.
    type Kernel: Clone + Debug + Send + Sync;
    /// A point in a queue.
    type Event: Event;
    /// Record of the blocks of a launch that have run.
    type Checkpoint: Checkpoint;
    /// Commands that the device takes at once; [`NoGraph`] if it can't.
    type Graph: Clone + Debug + Send + Sync;
}

/// Record of the blocks of a launch that have run, shared between the device and all clones.
///
/// ```
/// use reef_core::{Cells, Checkpoint, Device};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let launch = Cells::new(&device, 8)?.launch(7, 0);
/// assert_eq!(device.checkpoint(&launch)?.remaining(), 8);
/// # Ok::<(), reef_core::Error>(())
/// ```
pub trait Checkpoint: Clone + Debug + Send + Sync + 'static {
    /// Blocks that have not finished, as last reported by the device.
    fn remaining(&self) -> u32;
}

/// A point in a queue: the end of all commands before a [`record`](crate::Queue::record).
///
/// Once it is reached it can be recorded again, by one queue at a time: real-time clients use two
/// events for all of their tasks. An event that was never recorded is never reached.
///
/// ```
/// use reef_core::{Command, Config, Device, Event, VirtualQueue};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let event = device.event()?;
/// let (mut submitter, _queue) = VirtualQueue::enable(&device, Config::default())?;
/// let at = submitter.submit_blocking(Command::Record(event.clone()))?;
/// submitter.wait(at)?;
/// assert!(event.reached().is_some());
/// # Ok::<(), reef_core::Error>(())
/// ```
pub trait Event: Clone + Debug + Send + Sync + 'static {
    /// Returns the time at which it was reached, on the [device's clock](crate::Device::clock);
    /// `None` if it was not yet.
    ///
    /// Between a second record and its being reached this gives the first time or `None`, and
    /// afterwards the second time: ask when the queue's [`completed`](crate::Queue::completed) has
    /// passed the record.
    fn reached(&self) -> Option<Duration>;
}

/// The graph of a device that has none. It has no values.
///
/// ```
/// use reef_core::{Device, NoGraph, Result};
/// use reef_cpu::Cpu;
///
/// let graph: Result<NoGraph> = Cpu::open(0, "units=1")?.graph(&[]);
/// assert!(graph.is_err(), "the software device takes one command at a time");
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum NoGraph {}
