//! Interface of a device. Everything above it is the same for every backend.

use super::call::{Call, CallOutput, TextAbilities};
use super::shared::{SharedMemory, SharedParts};
use crate::class::Class;
use crate::error::{Error, Result};
use reef::models::Model;
use reef::{Account, ClientConfig, HostMemory, Neighbours, Span};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// An open device with its dispatcher.
pub(crate) trait Engine: Debug + Send + Sync {
    /// Returns the device's name for people.
    fn name(&self) -> String;

    /// Returns the memory that `model` takes there.
    fn sizes(&self, model: &Model) -> Sizes;

    /// Copies a model's weights to the device. Blocks, for seconds if it is large. If `measure`,
    /// kernels without known latencies are measured.
    ///
    /// # Errors
    ///
    /// Errors of the weights and of the device.
    fn load(&self, model: Model, measure: bool) -> Result<Arc<dyn DeviceModel>>;

    /// Loads a model at other sizes than those of `base`; equal constants are shared.
    ///
    /// # Errors
    ///
    /// Errors of [`load`](Self::load).
    fn load_sharing(&self, model: Model, base: &dyn DeviceModel) -> Result<Arc<dyn DeviceModel>>;

    /// Maps device memory that another process shares, by the 64 bytes of its driver's handle.
    /// Blocks for milliseconds.
    ///
    /// # Errors
    ///
    /// `Invalid` if the handle is not for memory of this device; `Failed` if the device shares
    /// none; errors of the device.
    fn open_shared(&self, handle: &[u8; 64]) -> Result<Arc<dyn SharedMemory>>;

    /// Allocates memory that requests read and write as another process's. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    fn alloc_shared(&self, bytes: usize) -> Result<Arc<dyn SharedMemory>>;

    /// Returns freed memory to the system, where the device keeps it for later allocations. Blocks
    /// for milliseconds.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    fn trim(&self) -> Result<()>;

    /// Returns the dispatcher's counters.
    fn stats(&self) -> reef::Stats;

    /// Returns the number of units: multiprocessors, compute units or threads.
    fn units(&self) -> u32;

    /// Returns the size of its own memory in bytes; `None` if it has none, or its size is unknown.
    fn memory(&self) -> Option<u64>;

    /// Checks that the device still works. If it does not, all of its work ends with an error, now
    /// and later. Never returns for a device that hangs: use [`Node`](super::node::Node).
    ///
    /// # Errors
    ///
    /// `Failed`, with the reason for the loss.
    fn check(&self) -> Result<()>;

    /// Removes the device: all of its work ends with an error that states `why`, now and later.
    fn mark_lost(&self, why: &str);

    /// Returns the number that identifies the device in other processes.
    fn uuid(&self) -> Option<[u8; 16]>;

    /// Sets the other users of the device; `None` removes them.
    fn set_neighbours(&self, neighbours: Option<Arc<dyn Neighbours>>);

    /// Lets the dispatcher read its neighbours' current demand.
    fn run_pass(&self);

    /// True if best-effort requests are on the device.
    fn has_best_effort(&self) -> bool;

    /// Returns the time of the device's clock, as used in traces.
    fn clock(&self) -> Duration;

    /// Starts or stops tracing of the device.
    fn set_trace(&self, on: bool);

    /// Takes the trace recorded so far.
    fn take_trace(&self) -> DeviceTrace;
}

/// Trace of a device.
#[derive(Debug, Default)]
pub(crate) struct DeviceTrace {
    /// Blocks, if the device reports them.
    pub(crate) spans: Vec<Span>,
    /// Times at which best-effort work was preempted.
    pub(crate) preemptions: Vec<Duration>,
}

/// Bytes of a model on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) weights: u64,
    /// For each instance: activations, input and output, host copies of both, scratch memory.
    pub(crate) instance: u64,
}

/// A model with its weights on the device.
pub(crate) trait DeviceModel: Debug + Send + Sync {
    /// Creates an instance for requests of one class, for a client with `config`.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    fn instance(&self, class: Class, config: ClientConfig) -> Result<Box<dyn Instance>>;

    /// Returns the bytes of constants that it does not share with its base model.
    fn own_bytes(&self) -> u64;

    /// Returns itself, for the engine that loaded it.
    fn as_any(&self) -> &dyn Any;

    /// True if it answers a request in parts.
    fn streams(&self) -> bool {
        false
    }

    /// Returns its abilities if it generates text.
    fn text(&self) -> Option<&TextAbilities> {
        None
    }

    /// True if a process opens inputs in clients' device memory by itself.
    fn opens_device_memory(&self) -> bool {
        false
    }

    /// Returns the error for a request of a class whose time is over, if it waits for a process
    /// that is off the GPU.
    fn late(&self, _: Class) -> Option<Error> {
        None
    }

    /// True if another model waits for the room on the GPU that a busy process of a class has.
    fn is_in_the_way(&self, _: Class) -> bool {
        false
    }

    /// Starts nothing any more: the model is being unloaded.
    fn close(&self) {}

    /// Begins to end what its instances have, after the last request.
    fn begin_end(&self) {}
}

/// Instances of one model that wait for requests.
pub(crate) trait Instances: Debug + Send + Sync {
    /// Takes an instance for a worker, which must [give](Self::give) it back. Creates one if one
    /// was lost.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    fn take(&self, class: Class) -> Result<Box<dyn Instance>>;

    /// Takes back an instance that can be used again.
    fn give(&self, class: Class, instance: Box<dyn Instance>);
}

/// Parameters of one run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// Slot of the shared memory; `None`: the written inputs.
    pub(crate) slot: Option<usize>,
    /// Tensors that the device copies from and to shared device memory.
    pub(crate) shared: SharedParts<'a>,
    /// Remaining time.
    pub(crate) time: Duration,
    /// True if no client waits for it any more.
    pub(crate) gone: &'a dyn Fn() -> bool,
    /// Account that real-time work is charged to.
    pub(crate) account: &'a Account,
    /// Early notification, for real-time work only.
    pub(crate) notice: Option<EarlyNotice<'a>>,
}

/// Notification shortly before a request ends.
#[derive(Clone, Copy)]
pub(crate) struct EarlyNotice<'a> {
    /// Time after the submission.
    pub(crate) after: Duration,
    pub(crate) tell: &'a dyn Fn(),
}

impl EarlyNotice<'_> {
    /// Calls `wait` until the time of the notification, and notifies if there is no result by then.
    pub(crate) fn wait_or_tell<T>(self, wait: impl FnOnce(Duration) -> Option<T>) -> Option<T> {
        let result = wait(self.after);
        if result.is_none() {
            (self.tell)();
        }
        result
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunTiming {
    /// Time until the first command could start, for real-time work: the preemption, if there was
    /// one.
    pub(crate) delay: Option<Duration>,
    /// Device time that it used.
    pub(crate) device: Duration,
}

/// Instance of a model: runs one request at a time.
pub(crate) trait Instance: Debug + Send {
    /// Writes a part of the inputs, starting at byte `offset`.
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not fit; errors of the device.
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()>;

    /// Prepares to read tensors from shared memory and to write them there without a copy in
    /// between. `slots` are the offsets of inputs and outputs. Returns `false` if the device
    /// cannot.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    fn share(&mut self, memory: HostMemory, slots: &[(usize, usize)]) -> Result<bool>;

    /// Runs the model on the written inputs, or on a slot of [shared](Self::share) memory. Blocks.
    ///
    /// # Errors
    ///
    /// `Deadline` for real-time work whose time is over or that no client waits for: work not
    /// launched by then is cancelled, and the rest has ended. `Unavailable` for best-effort work
    /// that no client waits for. Errors of the device. After the latter two the instance cannot be
    /// used any more.
    fn run(&mut self, run: Run<'_>) -> Result<RunTiming>;

    /// Reads a part of the outputs, starting at byte `offset`.
    ///
    /// # Errors
    ///
    /// Errors of [`write`](Self::write).
    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()>;

    /// Runs an inference whose tensors have shapes of their own; returns the requested outputs in
    /// that order. Blocks.
    ///
    /// # Errors
    ///
    /// `Unimplemented` for a network; errors of the process.
    fn call(&mut self, _: Call<'_>) -> Result<Vec<CallOutput>> {
        Err(Error::Unimplemented("a network with shapes that each request chooses".into()))
    }

    /// Runs inferences together, of a model that takes batches. Returns the result of each; errors
    /// are those of [`call`](Self::call). Blocks.
    fn call_all(&mut self, calls: &[Call<'_>]) -> Vec<Result<Vec<CallOutput>>> {
        calls.iter().map(|call| self.call(*call)).collect()
    }

    /// True if it reads inputs in clients' shared memory by itself, from their files.
    fn reads_files(&self) -> bool {
        false
    }

    /// True if it can be used again after any error.
    fn recovers(&self) -> bool {
        false
    }
}
