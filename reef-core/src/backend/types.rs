//! The types that a backend names; commands are made of them.

use std::fmt::Debug;
use std::time::Duration;

/// Names a backend's types, and does nothing.
///
/// Commands are generic over it, so that they depend on the types that they are made of and not on
/// a device.
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
pub trait Checkpoint: Clone + Debug + Send + Sync + 'static {
    /// Blocks that have not finished, as last reported by the device.
    fn remaining(&self) -> u32;
}

/// A point in a queue: the end of all commands before a [`record`](crate::Queue::record).
///
/// Once it is reached it can be recorded again, by one queue at a time: real-time clients use two
/// events for all of their tasks. An event that was never recorded is never reached.
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
#[derive(Debug, Clone, Copy)]
pub enum NoGraph {}
