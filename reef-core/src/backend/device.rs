//! The `Device` trait: opens an accelerator and makes what runs on it.
//!
//! Dispatch is static: a device names its types, and everything above it is generic over the
//! device.

use crate::backend::blocks::Blocks;
use crate::backend::command::{Command, Launch};
use crate::backend::error::{Error, Result};
use crate::backend::host_memory::HostMemory;
use crate::backend::info::{Colocation, DeviceInfo, PreemptLevel, Priority, Span};
use crate::backend::preemptor::Preemptor;
use crate::backend::queue::Queue;
use crate::backend::resources::Resources;
use crate::backend::types::Backend;
use std::fmt::Debug;
use std::time::Duration;

/// An open accelerator: makes what its [`Backend`] names, and the queues that run it.
///
/// Cloning is cheap (a handle), and all methods may be called from any thread.
///
/// ```
/// use reef_core::Device;
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=2")?;
/// let buffer = device.alloc(4)?;
/// device.write(&buffer, 0, &[1, 2, 3, 4])?;
/// let mut bytes = [0; 2];
/// device.read(&buffer, 2, &mut bytes)?;
/// assert_eq!((device.info().units, bytes), (2, [3, 4]));
/// # Ok::<(), reef_core::Error>(())
/// ```
pub trait Device: Backend {
    /// One hardware queue.
    type Queue: Queue<Backend = Self>;
    /// Stops work on a set of queues.
    type Preemptor: Preemptor;

    /// Options that can be chosen when it is opened; `()` if there are none.
    type Options: Default + Clone + Debug + Send;

    /// Reads options from text: `key=value` joined by `&`.
    ///
    /// # Errors
    ///
    /// `Invalid` names the option, what it may be and what was given.
    fn parse_options(text: &str) -> Result<Self::Options>;

    /// Returns the number of devices, which are numbered from 0; 1 if devices are made as they are
    /// opened.
    ///
    /// # Errors
    ///
    /// `NotFound` if the library is not installed.
    fn count() -> Result<usize> {
        Ok(1)
    }

    /// Opens device number `ordinal`.
    ///
    /// ```
    /// use reef_core::Device;
    /// use reef_cpu::{Cpu, Options};
    ///
    /// let mut options = Options::default();
    /// options.units = 2;
    /// assert_eq!(Cpu::open_with(0, options)?.info().units, 2);
    /// # Ok::<(), reef_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `NotFound` if the library is not installed or has no such device, `Invalid` for an option.
    fn open_with(ordinal: usize, options: Self::Options) -> Result<Self>;

    /// [Opens](Self::open_with) device number `ordinal` with options as
    /// [text](Self::parse_options).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`parse_options`](Self::parse_options) and
    /// [`open_with`](Self::open_with).
    fn open(ordinal: usize, options: &str) -> Result<Self> {
        Self::open_with(ordinal, Self::parse_options(options)?)
    }

    /// Facts that don't change while the device is open.
    fn info(&self) -> DeviceInfo;

    /// The present time on the clock of events: since the device was opened, never going back.
    fn clock(&self) -> Duration;

    /// Starts to note what runs on each unit, or stops. `false`: this device can't. It may note no
    /// more once that has taken much memory.
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

    /// Makes a buffer of host memory that is there already, for [copies](struct@crate::Copy) to and
    /// from the device.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this device copies only from and to host memory that it allocated.
    fn adopt_host(&self, _memory: HostMemory) -> Result<Self::Buffer> {
        let what = "copies from and to host memory of others".into();
        Err(Error::Unsupported { backend: Self::NAME, what })
    }

    /// Maps memory of this device that another process has allocated and shares: all of the
    /// allocation whose handle the driver gave that process (CUDA's `cudaIpcMemHandle_t`), and its
    /// size in bytes. It stays mapped until the last clone is dropped. Blocks for milliseconds.
    ///
    /// The other process may change its bytes at any time: copies that race get torn bytes.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this device shares no memory with other processes; `Invalid` if there is no
    /// such memory, or it is another device's; an error of the driver.
    fn open_shared(&self, _handle: &[u8; 64]) -> Result<(Self::Buffer, usize)> {
        let what = "device memory of other processes".into();
        Err(Error::Unsupported { backend: Self::NAME, what })
    }

    /// Returns freed memory to the system, where the device keeps it for later allocations. Blocks
    /// for milliseconds. Does nothing by default.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn trim(&self) -> Result<()> {
        Ok(())
    }

    /// Writes `data` into `buffer` from byte `offset` on. Blocks; unordered with queues.
    ///
    /// May be called at any time. If other writes, reads, copies and fills touch the same bytes
    /// meanwhile, the bytes are a mix. Guarding the memory of launches is their maker's obligation
    /// ([`Launch::new`]). Implementations touch memory of the host by [`words`](crate::words)
    /// alone.
    ///
    /// # Errors
    ///
    /// `Invalid` if it doesn't fit; an error of the driver.
    fn write(&self, buffer: &Self::Buffer, offset: usize, data: &[u8]) -> Result<()>;

    /// Reads `data.len()` bytes of `buffer` from byte `offset` on. Blocks; unordered with queues,
    /// as [`write`](Self::write) is.
    ///
    /// # Errors
    ///
    /// `Invalid` if the range is not inside; an error of the driver.
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

    /// Resources that one block of `launch` takes of a unit, as far as the device knows them.
    fn resources(&self, launch: &Launch<Self>) -> Resources {
        Resources { threads: launch.block().iter().product(), ..Resources::default() }
    }

    /// Returns the way in which it runs best-effort blocks next to real-time work. The default is
    /// none.
    fn colocation(&self) -> Colocation {
        Colocation::Never
    }

    /// Returns whether the graphs of a queue can run on a part of the units
    /// ([`run_on`](crate::Queue::run_on)). The default is `false`.
    fn has_parts(&self) -> bool {
        false
    }

    /// Creates an event that has not been reached.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn event(&self) -> Result<Self::Event>;

    /// Creates an empty record for `launch`: all of its blocks remain.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Self::Checkpoint>;

    /// Returns the blocks that `checkpoint` has left, which nothing runs now: of a queue that is
    /// [quiesced](crate::Group::is_quiesced), next to no real-time kernel. May block.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this device can't tell; `State` if some of its blocks run, or are in a
    /// newer checkpoint; the error of a block that failed; an error of the driver.
    fn blocks(&self, _checkpoint: &Self::Checkpoint) -> Result<Blocks> {
        let what = "reading back the blocks that a stopped command has left".into();
        Err(Error::Unsupported { backend: Self::NAME, what })
    }

    /// Creates a record of which `blocks` of `command` are left and all others have run. May block.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this device can't; `Invalid` if they are not those of such a command.
    fn checkpoint_of(
        &self,
        _command: &Command<Self>,
        _blocks: &Blocks,
    ) -> Result<Self::Checkpoint> {
        let what = "continuing a command from stored blocks".into();
        Err(Error::Unsupported { backend: Self::NAME, what })
    }

    /// Makes one command of several launches, copies and fills, to be submitted any number of times
    /// at the cost of one. It is preempted inside like the commands that it is made of.
    ///
    /// The first run on a queue takes longer: the driver prepares it then.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the device has no graphs; `Invalid` for other commands; an error of the
    /// driver.
    fn graph(&self, _commands: &[Command<Self>]) -> Result<Self::Graph> {
        Err(Error::Unsupported { backend: Self::NAME, what: "graphs".into() })
    }

    /// Prepares what the first run of `command`, on queues of this class that nothing stops, would
    /// take the driver milliseconds for. Blocks. Does nothing if it was done, or there is nothing
    /// to prepare.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn prepare(&self, _command: &Command<Self>, _priority: Priority) -> Result<()> {
        Ok(())
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
    /// Returns an error of the driver.
    fn queue(&self, priority: Priority, preemptor: Option<&Self::Preemptor>)
    -> Result<Self::Queue>;
}
