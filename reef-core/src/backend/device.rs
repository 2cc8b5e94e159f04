//! What a backend implements: [`Backend`], [`Device`], [`Queue`], [`Preemptor`], [`Checkpoint`], [`Event`].
//!
//! Dispatch is static: a device names its types, and everything above it is generic over the device.

use crate::dkp::{Padding, Resources};
use crate::{Command, Copy, Error, Fill, HostMemory, Launch, Result};
use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::thread::Thread;
use std::time::Duration;

/// Position of a command in its queue, counted from 0.
///
/// It is the command's name, its completion fence and its place to resume from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub u64);

/// How deep a preemption reaches. Each level includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreemptLevel {
    /// Commands not yet launched stay in the virtual queue. Every backend can do this.
    HostQueue,
    /// Commands launched but not started become no-ops, and so do blocks that have not started.
    DeviceQueue,
    /// Running blocks stop as well, unless they have passed their commit point.
    All,
}

impl PreemptLevel {
    /// All levels, shallow to deep.
    pub const EACH: [Self; 3] = [Self::HostQueue, Self::DeviceQueue, Self::All];
}

impl fmt::Display for PreemptLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(self, f)
    }
}

/// Which hardware queues are served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Served when no real-time block waits.
    BestEffort,
    /// Served first.
    RealTime,
}

/// Facts about a device that scheduling and padding need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// What to call it when talking to people.
    pub name: String,
    /// Streaming multiprocessors, compute units, or CPU threads.
    pub units: u32,
    /// Most blocks resident on one unit.
    pub blocks_per_unit: u32,
    /// Most threads resident on one unit.
    pub threads_per_unit: u32,
    /// Registers of one unit, in 32-bit words.
    pub registers_per_unit: u32,
    /// Shared memory of one unit, in bytes.
    pub shared_per_unit: u32,
    /// Deepest level that this device supports.
    pub level: PreemptLevel,
    /// What else is there or isn't, for people to read, such as `graphs` or `driver 13.0`.
    pub features: Vec<String>,
}

/// What became of the work that a stopped queue had on the device.
#[derive(Debug)]
pub struct Drained<B: Backend> {
    /// Every command before this one has finished; no later one has started.
    pub resume_at: Seq,
    /// What is left of `resume_at`, if some of it has run. Launch it again with this.
    pub partial: Option<B::Checkpoint>,
    /// `resume_at` and what was launched after it stay with the device, which holds them back: they go on by
    /// themselves when the queue may run again. Otherwise they are to be launched again.
    pub held: bool,
}

/// How best-effort blocks come to run beside real-time work on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colocation {
    /// Each real-time kernel is padded by itself ([`Queue::launch_padded`]).
    Padded,
    /// Queues are restored narrow, so many blocks each ([`Queue::cap_blocks`]).
    Capped(u32),
    /// Not at all.
    Never,
}

/// Names a backend's types, and does nothing.
///
/// Commands are generic over it, so that they know what they are made of and not who runs them.
pub trait Backend: Clone + Debug + Send + Sync + 'static {
    /// The name users type: `"cuda"`, `"hip"`, `"cpu"`.
    const NAME: &'static str;

    /// Memory of the device, or of the host pinned for it; freed when the last clone is dropped.
    type Buffer: Clone + Debug + Send + Sync;
    /// A function ready to launch.
    type Kernel: Clone + Debug + Send + Sync;
    /// A point in a queue that is reached once.
    type Event: Event;
    /// Which blocks of a launch have run.
    type Checkpoint: Checkpoint;
    /// Commands that the device takes at once; [`NoGraph`] if it can't.
    type Graph: Clone + Debug + Send + Sync;
}

/// An open accelerator: makes what its [`Backend`] names, and the queues that run it.
///
/// Cloning is cheap (a handle), and all methods may be called from any thread.
pub trait Device: Backend {
    /// One hardware queue.
    type Queue: Queue<Backend = Self>;
    /// Stops work on a set of queues.
    type Preemptor: Preemptor;

    /// Opens device number `ordinal` with backend-specific options, `key=value` joined by `&`.
    ///
    /// # Errors
    ///
    /// `NotFound` if the library is not installed or has no such device, `Invalid` for an option.
    fn open(ordinal: usize, options: &str) -> Result<Self>;

    /// Facts that don't change while the device is open.
    fn info(&self) -> DeviceInfo;

    /// The present time on the clock of events: since the device was opened, never going back.
    fn clock(&self) -> Duration;

    /// Starts to note what runs on each unit, or stops. `false`: this device can't.
    fn set_trace(&self, _on: bool) -> bool {
        false
    }

    /// Takes what has been noted so far, by time.
    fn take_trace(&self) -> Vec<Span> {
        Vec::new()
    }

    /// Allocates `bytes` of zeroed device memory, aligned to 64 bytes or more.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    fn alloc(&self, bytes: usize) -> Result<Self::Buffer>;

    /// Allocates `bytes` of zeroed host memory that copies to and from the device are fast with.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    fn alloc_host(&self, bytes: usize) -> Result<Self::Buffer>;

    /// Makes a buffer of host memory that is there already, for [copies](struct@Copy) to and from the device.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this device copies only from and to host memory that it allocated.
    fn adopt_host(&self, _memory: HostMemory) -> Result<Self::Buffer> {
        let what = "copies from and to host memory of others".into();
        Err(Error::Unsupported { backend: Self::NAME, what })
    }

    /// Writes `data` into `buffer` from byte `offset` on. Blocks; unordered with queues.
    ///
    /// # Errors
    ///
    /// `Invalid` if it doesn't fit; the driver's.
    fn write(&self, buffer: &Self::Buffer, offset: usize, data: &[u8]) -> Result<()>;

    /// Reads `data.len()` bytes of `buffer` from byte `offset` on. Blocks; unordered with queues.
    ///
    /// # Errors
    ///
    /// `Invalid` if the range is not inside; the driver's.
    fn read(&self, buffer: &Self::Buffer, offset: usize, data: &mut [u8]) -> Result<()>;

    /// A kernel that ships with the backend.
    ///
    /// Every backend has `append`, with which the conformance suite tells whether a block ran once,
    /// twice or not at all: arguments are the address of an array of `u64` cells, a value `v` and a
    /// number of rounds to spin; block `i` does `cell[i] = cell[i] * 3 + v` (wrapping) at its end,
    /// and may be stopped before.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none of this name.
    fn kernel(&self, name: &str) -> Result<Self::Kernel>;

    /// The address of `buffer` as kernels see it.
    fn address(&self, buffer: &Self::Buffer) -> u64;

    /// What one block of `launch` takes of a unit, as far as the device knows.
    fn resources(&self, launch: &Launch<Self>) -> Resources {
        Resources { threads: launch.block().iter().product(), ..Resources::default() }
    }

    /// How it runs best-effort blocks beside real-time work.
    fn colocation(&self) -> Colocation {
        Colocation::Padded
    }

    /// Creates an event that has not been reached.
    ///
    /// # Errors
    ///
    /// The driver's.
    fn event(&self) -> Result<Self::Event>;

    /// Creates an empty record for `launch`: all of its blocks remain.
    ///
    /// # Errors
    ///
    /// The driver's.
    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Self::Checkpoint>;

    /// Makes one command of several launches, copies and fills, to be submitted any number of times at
    /// the cost of one. It is preempted inside like the commands that it is made of.
    ///
    /// The first run on a queue takes longer: the driver prepares it then.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the device has no graphs; `Invalid` for other commands; the driver's.
    fn graph(&self, _commands: &[Command<Self>]) -> Result<Self::Graph> {
        Err(Error::Unsupported { backend: Self::NAME, what: "graphs".into() })
    }

    /// Creates the handle that stops every queue opened with it.
    ///
    /// # Errors
    ///
    /// `Level` if `level` is deeper than [`DeviceInfo::level`]. It never falls back silently.
    fn preemptor(&self, level: PreemptLevel) -> Result<Self::Preemptor>;

    /// Opens a hardware queue, which `preemptor` can stop if there is one.
    ///
    /// # Errors
    ///
    /// Whatever the driver reports.
    fn queue(&self, priority: Priority, preemptor: Option<&Self::Preemptor>)
    -> Result<Self::Queue>;
}

/// One hardware queue: commands run in the order given, one after the other.
///
/// Methods take `&mut self`, so whoever holds the queue is the only one launching on it. None of
/// them waits for the device. `seq` only grows, but not by one each time. Dropping a queue waits
/// for what runs; what has not started may be stopped.
pub trait Queue: Debug + Send + 'static {
    /// Whose commands it runs.
    type Backend: Backend;

    /// Hands a kernel to the hardware. With `resume`, only the blocks that remain run.
    ///
    /// # Errors
    ///
    /// The driver's. The kernel has then not been queued.
    fn launch(
        &mut self,
        seq: Seq,
        launch: &Launch<Self::Backend>,
        resume: Option<&<Self::Backend as Backend>::Checkpoint>,
    ) -> Result<()>;

    /// Launches `rt` with blocks of `be` beside it, as [`Padding`] says.
    ///
    /// `be` runs only on units that `rt` leaves free and never delays its completion: blocks that
    /// are late are stopped. Which of its blocks have run stands in `record`. Only called where
    /// [`Device::colocation`] is [`Colocation::Padded`].
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch).
    fn launch_padded(
        &mut self,
        _seq: Seq,
        _rt: &Launch<Self::Backend>,
        _padding: &Padding,
        _be: &Launch<Self::Backend>,
        _record: &<Self::Backend as Backend>::Checkpoint,
    ) -> Result<()> {
        let what = "padding kernel by kernel".into();
        Err(Error::Unsupported { backend: Self::Backend::NAME, what })
    }

    /// Hands a graph to the hardware. With `resume`, only what remains runs.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch).
    fn launch_graph(
        &mut self,
        _seq: Seq,
        _graph: &<Self::Backend as Backend>::Graph,
        _resume: Option<&<Self::Backend as Backend>::Checkpoint>,
    ) -> Result<()> {
        Err(Error::Unsupported { backend: Self::Backend::NAME, what: "graphs".into() })
    }

    /// Copies between buffers.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch).
    fn copy(&mut self, seq: Seq, copy: &Copy<Self::Backend>) -> Result<()>;

    /// Fills a part of a buffer.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch).
    fn fill(&mut self, seq: Seq, fill: &Fill<Self::Backend>) -> Result<()>;

    /// Lets `event` be reached when all earlier commands have finished.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch).
    fn record(&mut self, seq: Seq, event: &<Self::Backend as Backend>::Event) -> Result<()>;

    /// All commands before the returned position have finished. Doesn't block.
    ///
    /// # Errors
    ///
    /// `DeviceLost`, or the error of a kernel that failed.
    fn completed(&mut self) -> Result<Seq>;

    /// If nothing of this queue runs or will run by itself: takes back what it still has.
    ///
    /// `None` means that the device is not done yet. Without an eviction it is when all commands
    /// have finished; during one, when all running blocks have ended.
    ///
    /// # Errors
    ///
    /// As [`completed`](Self::completed).
    fn try_drain(&mut self) -> Result<Option<Drained<Self::Backend>>>;

    /// What the evicted queue keeps on the device ([`Drained::held`]) goes on at once, beside real-time
    /// work: nobody will restore the queue.
    fn release_held(&mut self) {}

    /// From now on at most `blocks` blocks of this queue run at a time, so that real-time kernels find
    /// room beside them; `None`: as many as there are. Only where [`Device::colocation`] says so.
    fn cap_blocks(&mut self, _blocks: Option<u32>) {}

    /// Names the thread that the device unparks when [`completed`](Self::completed) reaches what
    /// [`wake_at`](Self::wake_at) asked for, or when a [`try_drain`](Self::try_drain) that gave
    /// `None` would give more. `false`: this device wakes nobody, poll instead.
    fn wake(&mut self, thread: Thread) -> bool;

    /// Asks for the thread to be unparked when all commands before `seq` have finished. The newest
    /// call counts. If they have already, nobody is unparked: look again after calling.
    fn wake_at(&mut self, _seq: Seq) {}
}

/// Stops work that the hardware already holds.
///
/// One preemptor covers all queues opened with it, so its cost doesn't grow with their number.
/// None of its calls waits for the device.
pub trait Preemptor: Debug + Send + Sync + 'static {
    /// The deepest level it was created for.
    fn level(&self) -> PreemptLevel;

    /// [`PreemptLevel::DeviceQueue`]: turns launched, unstarted work into no-ops.
    ///
    /// # Errors
    ///
    /// `Level` below that level.
    fn evict(&self) -> Result<()>;

    /// [`PreemptLevel::All`]: stops running blocks.
    ///
    /// # Errors
    ///
    /// `Level` below that level.
    fn reset(&self) -> Result<()>;

    /// Lets queues run again. Every queue must have been drained since [`evict`](Self::evict).
    /// Does nothing if they already run.
    ///
    /// # Errors
    ///
    /// The driver's.
    fn reactivate(&self) -> Result<()>;
}

/// Which blocks of a launch have run; shared between the device and whoever holds a clone.
pub trait Checkpoint: Clone + Debug + Send + Sync + 'static {
    /// Blocks that have not finished, as last reported by the device.
    fn remaining(&self) -> u32;
}

/// The graph of a device that has none; there is no value of it.
#[derive(Debug, Clone, Copy)]
pub enum NoGraph {}

/// A point in a queue that is reached once.
pub trait Event: Clone + Debug + Send + Sync + 'static {
    /// When it was reached, on the [device's clock](Device::clock); `None` if it was not yet.
    fn reached(&self) -> Option<Duration>;
}

/// One block on one unit, for people to look at. Times are on the [device's clock](Device::clock).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Which unit.
    pub unit: u32,
    /// Which hardware queue, numbered in the order in which they were opened.
    pub queue: u64,
    /// Of which class; padding is best-effort work on a real-time queue.
    pub priority: Priority,
    /// Whether it ran as padding.
    pub padding: bool,
    /// Position of the command in its queue.
    pub seq: Seq,
    /// The kernel's name, `copy`, `fill` or `event`.
    pub name: Cow<'static, str>,
    /// Which block of the kernel.
    pub block: u32,
    /// When it began.
    pub begin: Duration,
    /// When it ended.
    pub end: Duration,
    /// Whether it was stopped before it took effect.
    pub stopped: bool,
}
