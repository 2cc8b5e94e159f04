//! What the daemon asks of a device: everything above is the same for every backend.

use super::shared::{SharedMemory, SharedParts};
use crate::class::Class;
use crate::error::Result;
use reef::models::Model;
use reef::{Account, ClientConfig, HostMemory, Neighbours, Span};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// An open device with its dispatcher.
pub(crate) trait Engine: Debug + Send + Sync {
    /// The device's name for people.
    fn name(&self) -> String;

    /// Memory that `model` takes there.
    fn sizes(&self, model: &Model) -> Sizes;

    /// Brings a model's weights onto the device. Blocks, for seconds if it is large. If `measure`,
    /// kernels whose latencies are not known are measured.
    ///
    /// # Errors
    ///
    /// What is wrong with the weights; the device's.
    fn load(&self, model: Model, measure: bool) -> Result<Arc<dyn DeviceModel>>;

    /// As [`load`](Self::load), for a model at other sizes than `base` has: constants that are the
    /// same are shared.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    fn load_beside(&self, model: Model, base: &dyn DeviceModel) -> Result<Arc<dyn DeviceModel>>;

    /// Maps device memory that another process shares, by the 64 bytes of its driver's handle.
    /// Blocks for milliseconds.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is no such memory of this device; `Failed` if the device shares none; the
    /// device's.
    fn open_shared(&self, handle: &[u8; 64]) -> Result<Arc<dyn SharedMemory>>;

    /// Memory of the device for tests that stands for another process's.
    #[cfg(test)]
    fn alloc_shared(&self, bytes: usize) -> Result<Arc<dyn SharedMemory>>;

    /// What the dispatcher has done so far.
    fn stats(&self) -> reef::Stats;

    /// What there is to run on: multiprocessors, compute units or threads.
    fn units(&self) -> u32;

    /// Bytes of memory of its own; `None` if it has none, or doesn't say.
    fn memory(&self) -> Option<u64>;

    /// Asks the device whether it still works. If it doesn't, all of its work ends with an error,
    /// now and later. Of a device that hangs it never returns: [`Node`](super::node::Node) asks.
    ///
    /// # Errors
    ///
    /// `Failed`: why it is lost.
    fn check(&self) -> Result<()>;

    /// Takes the device out: all of its work ends with an error that says `why`, now and later.
    fn give_up(&self, why: &str);

    /// What names the device in other processes.
    fn uuid(&self) -> Option<[u8; 16]>;

    /// Names others who work on the device; `None`: there are none any more.
    fn set_neighbours(&self, who: Option<Arc<dyn Neighbours>>);

    /// Has the dispatcher see what neighbours want now.
    fn look(&self);

    /// Whether best-effort requests are on the device.
    fn has_best_effort(&self) -> bool;

    /// The device's clock, which traces go by.
    fn clock(&self) -> Duration;

    /// Starts to note what happens on the device, or stops.
    fn set_trace(&self, on: bool);

    /// Takes what has been noted so far.
    fn take_trace(&self) -> DeviceTrace;
}

/// What happened on a device while it was traced.
#[derive(Debug, Default)]
pub(crate) struct DeviceTrace {
    /// Blocks, if the device knows about them.
    pub(crate) spans: Vec<Span>,
    /// When best-effort work was preempted.
    pub(crate) preemptions: Vec<Duration>,
}

/// Bytes of a model on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) weights: u64,
    /// Of each instance: activations, input and output, those again for the host, scratch memory.
    pub(crate) instance: u64,
}

/// A model with its weights on the device.
pub(crate) trait DeviceModel: Debug + Send + Sync {
    /// Makes an instance that runs requests of one class, for a client that was granted `config`.
    ///
    /// # Errors
    ///
    /// The device's.
    fn instance(&self, class: Class, config: ClientConfig) -> Result<Box<dyn Instance>>;

    /// Bytes of constants that it doesn't share with the model that it was loaded beside.
    fn own_bytes(&self) -> u64;

    /// For the engine that loaded it.
    fn as_any(&self) -> &dyn Any;
}

/// Instances of one model that wait for requests.
pub(crate) trait Instances: Debug + Send + Sync {
    /// An instance for a lane, which [gives](Self::give) it back. One is made if one was lost.
    ///
    /// # Errors
    ///
    /// The device's.
    fn take(&self, class: Class) -> Result<Box<dyn Instance>>;

    /// Takes an instance that can be used again.
    fn give(&self, class: Class, instance: Box<dyn Instance>);
}

/// How a request is to be run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// Of the shared memory; `None`: on what was written.
    pub(crate) slot: Option<usize>,
    /// Copied by the device to and from where they are.
    pub(crate) shared: SharedParts<'a>,
    /// Time that is left.
    pub(crate) time: Duration,
    /// Whether no client waits for it any more.
    pub(crate) gone: &'a dyn Fn() -> bool,
    /// Whom real-time work is charged to.
    pub(crate) account: &'a Account,
    /// Real-time work only.
    pub(crate) soon: Option<Soon<'a>>,
}

/// Says that a request will have ended soon.
#[derive(Clone, Copy)]
pub(crate) struct Soon<'a> {
    /// How long after its submission.
    pub(crate) after: Duration,
    pub(crate) tell: &'a dyn Fn(),
}

impl Soon<'_> {
    /// Waits as `wait` does until it is time to tell, and tells if nothing has come by then.
    pub(crate) fn or_tell<T>(self, wait: impl FnOnce(Duration) -> Option<T>) -> Option<T> {
        let come = wait(self.after);
        if come.is_none() {
            (self.tell)();
        }
        come
    }
}

/// How a request was run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Of real-time work: how long it took until its first command could start: the preemption, if
    /// there was one.
    pub(crate) delay: Option<Duration>,
    /// Device time that it had.
    pub(crate) device: Duration,
}

/// An instance of a model: runs one request at a time.
pub(crate) trait Instance: Debug + Send {
    /// Writes a part of the inputs, from byte `offset` on.
    ///
    /// # Errors
    ///
    /// `Invalid` if it doesn't fit; the device's.
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()>;

    /// Prepares to take tensors from memory of others and to leave them there, at these bytes
    /// (inputs and outputs of each slot), without a copy in between. `false`: the device can't.
    ///
    /// # Errors
    ///
    /// The device's.
    fn share(&mut self, memory: HostMemory, slots: &[(usize, usize)]) -> Result<bool>;

    /// Runs the model on what was written, or on a slot of what is [shared](Self::share). Blocks.
    ///
    /// # Errors
    ///
    /// `Deadline` for real-time work whose time is over, or that no client waits for: what was not
    /// launched by then is cancelled, and the rest has ended. `Unavailable` for best-effort work
    /// that no client waits for, and the device's; after these the instance can't be used any more.
    fn run(&mut self, run: Run<'_>) -> Result<Ran>;

    /// Reads a part of the outputs, from byte `offset` on.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()>;
}
