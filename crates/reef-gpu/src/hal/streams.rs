//! Streams of a vendor's driver: what runs in them, what stops it, and what runs next to.

use reef_core::{Priority, Result};
use std::fmt::Debug;

/// Kind of work that runs in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Real-time work, and what stops the other.
    RealTime,
    /// Best-effort work.
    BestEffort,
}

impl From<Priority> for StreamKind {
    fn from(class: Priority) -> Self {
        match class {
            Priority::RealTime => Self::RealTime,
            Priority::BestEffort => Self::BestEffort,
        }
    }
}

/// Streams of a device, and the words that they wait for.
pub trait Streams {
    /// A stream.
    type Stream: Copy + Debug + Send + Sync;

    /// Opens a stream, unordered with all others: of the highest priority for real-time work, of
    /// the lowest for other.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn open_stream(&self, kind: StreamKind) -> Result<Self::Stream>;

    /// As [`open_stream`](Self::open_stream); what is captured in it runs on a part of the units in
    /// percent, wherever it is launched. Real-time streams have the first units, others the last
    /// ones. All of them if the driver refuses such a part. Only where
    /// [`Facts::parts`](crate::Facts::parts).
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn open_part_stream(&self, kind: StreamKind, _percent: u32) -> Result<Self::Stream> {
        self.open_stream(kind)
    }

    /// Closes a stream that is idle, or whose device is lost.
    ///
    /// # Safety
    ///
    /// The stream is open, and isn't used from now on.
    unsafe fn close_stream(&self, stream: Self::Stream);

    /// Returns whether all in the stream has ended. Doesn't block.
    ///
    /// # Safety
    ///
    /// The stream is open, and isn't being captured.
    ///
    /// # Errors
    ///
    /// `DeviceLost`; an error of the driver.
    unsafe fn is_idle(&self, stream: Self::Stream) -> Result<bool>;

    /// Blocks until all in the stream has ended.
    ///
    /// # Safety
    ///
    /// As of [`is_idle`](Self::is_idle).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`is_idle`](Self::is_idle).
    unsafe fn wait(&self, stream: Self::Stream) -> Result<()>;

    /// Holds what follows in the stream until the word is `value`. Only where
    /// [`Facts::waits_values`](crate::Facts::waits_values).
    ///
    /// # Safety
    ///
    /// The stream is open. The word came from [`alloc_gate`](crate::Memory::alloc_gate) and is
    /// there until it was passed.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    unsafe fn wait_value(&self, stream: Self::Stream, address: u64, value: u32) -> Result<()>;
}

/// Words by which launched kernels are made void and running ones are stopped.
///
/// Each guarded launch carries an epoch, and its blocks compare it with such a word: at entry, and
/// at their preemption points. No driver has a call that stops a kernel, so what a vendor has for
/// this is how a word gets to the device past all that fills it.
///
/// # Safety
///
/// Safe code above writes the words and hands their addresses to kernels. Memory for words keeps
/// the rules of [`Memory`](crate::Memory).
pub unsafe trait Reset: Streams {
    /// Allocates zeroed device memory in which streams can write words; freeing it may wait for
    /// all work.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`, with the bytes asked for.
    fn alloc_signals(&self, bytes: usize) -> Result<u64>;

    /// Frees what [`alloc_signals`](Self::alloc_signals) gave.
    ///
    /// # Safety
    ///
    /// They came from [`alloc_signals`](Self::alloc_signals), are given back once, and no work uses
    /// them any more.
    unsafe fn free_signals(&self, memory: u64);

    /// Sets a word when all before it in the stream has ended. Only where
    /// [`Facts::writes_values`](crate::Facts::writes_values).
    ///
    /// # Safety
    ///
    /// The stream is open, and the word is memory that the device can write and to which there are
    /// no references.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    unsafe fn write_value(&self, stream: Self::Stream, address: u64, value: u32) -> Result<()>;
}

/// Best-effort blocks next to a real-time kernel (dynamic kernel padding).
pub trait Padding: Reset {
    /// Launches a real-time kernel with blocks of another next to it. The vendor decides the order
    /// of the parts, and what holds the blocks back until the kernel's turn has come.
    ///
    /// # Safety
    ///
    /// Both streams are open, and nothing is captured in them.
    ///
    /// # Errors
    ///
    /// Errors of the parts, of which none follows one that failed; an error of the driver.
    unsafe fn launch_padded(
        &self,
        streams: PaddedStreams<Self::Stream>,
        parts: &mut dyn PaddedParts,
    ) -> Result<()>;
}

/// Streams of a padded launch.
#[derive(Debug, Clone, Copy)]
pub struct PaddedStreams<S> {
    /// Stream of the real-time kernel.
    pub real_time: S,
    /// Stream of the best-effort blocks, which is empty and of the lowest priority.
    pub best_effort: S,
    /// Earlier work of the real-time stream may still run.
    pub is_busy: bool,
}

/// Parts of a padded launch, which all GPUs have alike: each is put into its stream once.
pub trait PaddedParts {
    /// Launches the real-time kernel.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn real_time(&mut self) -> Result<()>;

    /// Behind it in its stream: sets the word that stops the blocks.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn stop(&mut self) -> Result<()>;

    /// Launches the blocks in the other stream, and what tells which of them have run. They are
    /// stopped at entry if the word was set before.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn best_effort(&mut self) -> Result<()>;
}
