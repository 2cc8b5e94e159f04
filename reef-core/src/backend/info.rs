//! Plain facts: positions, levels, classes, what a device is.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::time::Duration;

/// Position of a command in its queue, counted from 0.
///
/// It is the command's name, its completion fence and its place to resume from.
///
/// ```
/// use reef_core::Seq;
///
/// let (last, completed) = (Seq(99), Seq(100));
/// assert!(last < completed, "all commands before 100 have finished: the one at 99 is among them");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub u64);

/// Depth of a preemption. Each level includes the ones before it.
///
/// ```
/// use reef_core::{Device, PreemptLevel};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// assert_eq!(device.info().level, PreemptLevel::All, "running blocks stop as well");
/// assert!(PreemptLevel::All > PreemptLevel::DeviceQueue);
/// # Ok::<(), reef_core::Error>(())
/// ```
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
    pub const ALL: [Self; 3] = [Self::HostQueue, Self::DeviceQueue, Self::All];
}

impl fmt::Display for PreemptLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(self, f)
    }
}

/// Order in which hardware queues are served.
///
/// ```
/// use reef_core::{Device, Priority};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let urgent = device.queue(Priority::RealTime, None)?;
/// let other = device.queue(Priority::BestEffort, None)?;
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Served when no real-time block waits.
    BestEffort,
    /// Served first.
    RealTime,
}

/// Facts about a device that scheduling and padding need.
///
/// ```
/// use reef_core::{DeviceInfo, PreemptLevel};
///
/// let mut info = DeviceInfo::new("a GPU", 132, PreemptLevel::All);
/// info.threads_per_unit = 2048;
/// assert_eq!(info.units * info.threads_per_unit, 270_336);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Name for people.
    pub name: String,
    /// Streaming multiprocessors, compute units, or CPU threads.
    pub units: u32,
    /// Upper bound of blocks resident on one unit.
    pub blocks_per_unit: u32,
    /// Upper bound of threads resident on one unit.
    pub threads_per_unit: u32,
    /// Registers of one unit, in 32-bit words.
    pub registers_per_unit: u32,
    /// Shared memory of one unit, in bytes.
    pub shared_per_unit: u32,
    /// Deepest level that this device supports.
    pub level: PreemptLevel,
    /// Bytes of memory of its own; `None` if it has none, or doesn't say.
    pub memory: Option<u64>,
    /// Identity of the device in every process of this machine, from its driver; `None` if the
    /// driver has none.
    pub uuid: Option<[u8; 16]>,
    /// Shortest real-time kernel that is padded, in microseconds of its profile. A padded launch
    /// takes longer than a plain one, and waits until few kernels are ahead of it: next to shorter
    /// kernels that costs more than its blocks bring. 0 for all kernels.
    pub padded_micros: u32,
    /// Features that exist or are missing, for people to read: `graphs`, `driver 13.0`.
    pub features: Vec<String>,
}

impl DeviceInfo {
    /// A device of `units` units, each with one of everything and no features. Set other fields
    /// afterwards.
    pub fn new(name: impl Into<String>, units: u32, level: PreemptLevel) -> Self {
        Self {
            name: name.into(),
            units,
            blocks_per_unit: 1,
            threads_per_unit: 1,
            registers_per_unit: 1,
            shared_per_unit: 1,
            level,
            memory: None,
            uuid: None,
            padded_micros: 0,
            features: Vec::new(),
        }
    }
}

/// Way in which a device runs best-effort blocks next to real-time work.
///
/// ```
/// use reef_core::{Colocation, Device};
/// use reef_cpu::Cpu;
///
/// let colocation = |options| Ok::<_, reef_core::Error>(Cpu::open(0, options)?.colocation());
/// assert_eq!(colocation("units=1")?, Colocation::Padded);
/// assert_eq!(colocation("units=1&colocation=none")?, Colocation::Never);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colocation {
    /// Each real-time kernel is padded by itself ([`launch_padded`](crate::Queue::launch_padded)).
    Padded,
    /// Queues are restored narrow ([`cap_blocks`](crate::Queue::cap_blocks)).
    Capped(Caps),
    /// Not at all.
    Never,
}

/// Blocks of a best-effort queue that run at a time next to real-time work.
///
/// A real-time kernel waits for the blocks that are on the device. Short ones cost it little, and a
/// narrow grid costs best-effort work much; with long ones it is the reverse. So each queue has the
/// cap that fits the blocks which its last stops met.
///
/// ```
/// use reef_core::Caps;
///
/// let caps = Caps { short: 132, long: 16, percent: 100 };
/// assert!(caps.is_adaptive());
/// assert_eq!(caps.at_most(64), Caps { short: 64, long: 16, percent: 100 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Cap of a queue that was stopped within 250 µs.
    pub short: u32,
    /// Cap of a queue whose stop took longer.
    pub long: u32,
    /// Part of the units in percent that graphs of the queue run on
    /// ([`run_on`](crate::Queue::run_on)); 100: all.
    pub percent: u32,
}

impl Caps {
    /// One cap for all queues.
    pub fn all(blocks: u32) -> Self {
        Self { short: blocks, long: blocks, percent: 100 }
    }

    /// These, and at most this many blocks.
    pub fn at_most(self, blocks: u32) -> Self {
        Self { short: self.short.min(blocks), long: self.long.min(blocks), ..self }
    }

    /// True if the cap depends on the blocks.
    pub fn is_adaptive(self) -> bool {
        self.short != self.long
    }
}

/// One block on one unit, for people to look at. Times are on the [device's
/// clock](crate::Device::clock).
///
/// ```
/// use reef_core::{Cells, Config, Device, VirtualQueue};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// device.set_trace(true);
/// let (mut submitter, _queue) = VirtualQueue::enable(&device, Config::default())?;
/// let at = submitter.submit_blocking(Cells::new(&device, 4)?.append(7, 0))?;
/// submitter.wait(at)?;
/// for span in device.take_trace() {
///     println!("{} {} ran from {:?} to {:?}", span.name, span.block, span.begin, span.end);
/// }
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// Number of the unit.
    pub unit: u32,
    /// Number of the hardware queue, in the order in which they were opened.
    pub queue: u64,
    /// Class of the queue; padding is best-effort work on a real-time queue.
    pub priority: Priority,
    /// True if it ran as padding.
    pub padding: bool,
    /// Position of the command in its queue.
    pub seq: Seq,
    /// The kernel's name, `copy`, `fill` or `event`.
    pub name: Cow<'static, str>,
    /// Number of the block in its kernel.
    pub block: u32,
    /// Time of its beginning.
    pub begin: Duration,
    /// Time of its end.
    pub end: Duration,
    /// True if it was stopped before it took effect.
    pub stopped: bool,
}

impl Span {
    /// A block called `name` that ran on `unit`: block 0 of command 0 of queue 0, best-effort, not
    /// stopped. Set what is otherwise.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        unit: u32,
        begin: Duration,
        end: Duration,
    ) -> Self {
        Self {
            unit,
            queue: 0,
            priority: Priority::BestEffort,
            padding: false,
            seq: Seq(0),
            name: name.into(),
            block: 0,
            begin,
            end,
            stopped: false,
        }
    }
}
