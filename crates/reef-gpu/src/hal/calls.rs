//! Calls of a vendor's driver for an open device: all that the backends don't share.

use crate::hal::facts::{Facts, FunctionFacts, GateSignal};
use crate::hal::image::Build;
use crate::hal::options::Options;
use crate::hal::streams::{Padding, Reset, Streams};
use reef_core::{Dim3, Result};
use std::ffi::c_void;
use std::fmt::Debug;

/// An open device, as its vendor's driver runs it. Any method may be called from any thread.
///
/// Addresses and handles are plain values here, and drivers follow them unseen: what takes one is
/// `unsafe`. A backend's users have [`Gpu`](crate::Gpu), whose handles answer for it.
///
/// ```compile_fail,E0133
/// fn free_twice(vendor: &impl reef_gpu::Vendor, memory: u64) {
///     vendor.free(memory);
///     vendor.free(memory);
/// }
/// ```
///
/// # Safety
///
/// Safe code above trusts what these methods give. In addition to the promises of [`Memory`] and
/// [`Reset`],
///
/// * [`facts`](Self::facts) are true of the device: no launch asks for what it doesn't have, and
///   what they say streams can do, they do;
/// * what is in a stream runs in order, each launch after the one before has ended unless it
///   [starts early](Start::Early), and [`is_idle`](Streams::is_idle) and [`wait`](Streams::wait)
///   say that it has ended only then;
/// * functions are those of the image that was loaded, with the parameters of its source, and what
///   was captured runs as it was captured;
/// * methods may be called from any thread at any time, and don't unwind into the driver.
pub unsafe trait Vendor:
    Memory + Modules + Graphs + Reset + Padding + Debug + Send + Sync + Sized + 'static
{
    /// The name users type: `"cuda"`, `"hip"`.
    const NAME: &'static str;

    /// Returns the number of devices.
    ///
    /// # Errors
    ///
    /// `NotFound` if the library is not installed; an error of the driver.
    fn count() -> Result<usize>;

    /// Opens device number `ordinal`.
    ///
    /// # Errors
    ///
    /// `NotFound` if the library is not installed or has no such device; `Invalid` or `Unsupported`
    /// for an option that this device can't do; an error of the driver.
    fn open(ordinal: usize, options: &Options) -> Result<Self>;

    /// Returns the device's facts.
    fn facts(&self) -> &Facts;
}

/// Memory of a device, and of the host as far as the device reaches it.
///
/// # Safety
///
/// Safe code above reads and writes what these methods give, and hands it to kernels.
///
/// * Memory that was allocated has at least as many bytes as asked for, is aligned to 16 bytes,
///   zeroed, and of no other allocation, until it is freed.
/// * What has an address on both sides is the same memory, and what one side writes the other sees.
/// * [`open_shared`](Self::open_shared) gives no more bytes than the other process's allocation
///   has, which stays until it is closed.
/// * [`write`](Self::write) and [`read`](Self::read) touch those bytes alone, and no longer than
///   the call lasts.
pub unsafe trait Memory {
    /// Allocates zeroed device memory. Blocks for as long as that takes, not for other work.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`, with the bytes asked for.
    fn alloc(&self, bytes: usize) -> Result<u64>;

    /// Frees what [`alloc`](Self::alloc) gave and no work uses any more.
    ///
    /// # Safety
    ///
    /// `memory` came from [`alloc`](Self::alloc), is given back once, and no work uses it any more.
    unsafe fn free(&self, memory: u64);

    /// Returns whether [`free`](Self::free) and [`free_host`](Self::free_host) wait until the whole
    /// device is idle.
    fn waits_to_free(&self) -> bool {
        false
    }

    /// Returns freed memory to the system, where [`free`](Self::free) keeps it. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn trim(&self) -> Result<()> {
        Ok(())
    }

    /// Allocates zeroed host memory that the device can reach: its address here and there.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`alloc`](Self::alloc).
    fn alloc_host(&self, bytes: usize) -> Result<(*mut u8, u64)>;

    /// Frees what [`alloc_host`](Self::alloc_host) gave.
    ///
    /// # Safety
    ///
    /// `host` came from [`alloc_host`](Self::alloc_host), is given back once, and neither host nor
    /// device use it any more.
    unsafe fn free_host(&self, host: *mut u8);

    /// Pins host memory that others allocated so that the device can reach it: its address there.
    ///
    /// # Safety
    ///
    /// `bytes` bytes from `host` on are there until [`unregister_host`](Self::unregister_host).
    ///
    /// # Errors
    ///
    /// `Unsupported` if this memory can't be pinned, with the driver's words; an error of the
    /// driver.
    unsafe fn register_host(&self, host: *mut u8, bytes: usize) -> Result<u64>;

    /// Ends what [`register_host`](Self::register_host) began; no work may use the memory any more.
    ///
    /// # Safety
    ///
    /// `host` went to [`register_host`](Self::register_host) and is unregistered once; no work uses
    /// it any more.
    unsafe fn unregister_host(&self, host: *mut u8);

    /// Maps memory of this device that another process shares, by the driver's handle: its address
    /// here, and how many bytes the allocation has.
    ///
    /// # Errors
    ///
    /// `Unsupported` if that isn't done here; `Invalid` if there is no such memory, or it is
    /// another device's.
    fn open_shared(&self, handle: &[u8; 64]) -> Result<(u64, usize)>;

    /// Ends what [`open_shared`](Self::open_shared) began, once for each time.
    ///
    /// # Safety
    ///
    /// `memory` came from [`open_shared`](Self::open_shared) and is given back once; no work uses
    /// it any more.
    unsafe fn close_shared(&self, memory: u64);

    /// Allocates a zeroed word for [`wait_value`](Streams::wait_value).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`alloc`](Self::alloc).
    fn alloc_gate(&self) -> Result<GateSignal>;

    /// Frees what [`alloc_gate`](Memory::alloc_gate) gave.
    ///
    /// # Safety
    ///
    /// It came from [`alloc_gate`](Self::alloc_gate), is given back once, and no stream waits for
    /// it any more.
    unsafe fn free_gate(&self, word: GateSignal);

    /// Copies to the device. Blocks, unordered with streams.
    ///
    /// # Safety
    ///
    /// The bytes from `to` on are inside memory of this device that stays there during the call.
    /// Values that work uses meanwhile may be torn.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    unsafe fn write(&self, to: u64, data: &[u8]) -> Result<()>;

    /// Copies from the device. Blocks, unordered with streams.
    ///
    /// # Safety
    ///
    /// The bytes from `from` on are inside memory of this device that stays there during the call.
    /// Values that work writes meanwhile may be torn.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    unsafe fn read(&self, from: u64, data: &mut [u8]) -> Result<()>;
}

/// Condition for a launch to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Start when all before it in the stream has ended.
    InTurn,
    /// Start while the launch before it runs, for whose end the kernel waits by itself:
    /// `Block::follow` in kernels/reef.h. Only where [`Facts::starts_early`].
    Early,
}

/// Grid, block and start of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchConfig {
    /// May be [`Start::Early`] only where [`Facts::starts_early`].
    pub start: Start,
    /// Blocks in each dimension.
    pub grid: Dim3,
    /// Threads of a block in each dimension.
    pub block: Dim3,
    /// Bytes of dynamic shared memory for each block.
    pub shared: u32,
}

impl LaunchConfig {
    /// One block of this number of threads, in turn, without dynamic shared memory.
    pub const fn one_block(threads: u32) -> Self {
        Self { start: Start::InTurn, grid: [1; 3], block: [threads, 1, 1], shared: 0 }
    }
}

/// Code on a device, and its kernels.
pub trait Modules: Streams {
    /// Loaded code.
    type Code: Copy + Debug + Send + Sync;

    /// A function of loaded code.
    type Function: Copy + Debug + Send + Sync;

    /// Device code that ships with the backend, from the source kernels/`name`.cu.
    ///
    /// # Errors
    ///
    /// `Unsupported` if there is none for this device.
    fn shipped(&self, name: &str, build: Build) -> Result<Vec<u8>>;

    /// The guarded build of the same in which blocks take turns, if there is one: see `REEF_EACH`
    /// in kernels/reef.h.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`shipped`](Self::shipped).
    fn taking_turns(&self, _name: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Compiles a user's source, which may include `reef.h`, for this device.
    ///
    /// # Errors
    ///
    /// `Invalid` with the compiler's messages; `NotFound` without a compiler.
    fn compile(&self, source: &str, build: Build) -> Result<Vec<u8>>;

    /// Makes a user's image one that [`load_code`](Self::load_code) takes.
    ///
    /// # Errors
    ///
    /// `Invalid` if it isn't of a kind that the driver knows, whole as far as its own headers tell.
    fn check_image(&self, image: &[u8]) -> Result<Vec<u8>>;

    /// Loads an image: one that ships, was compiled, or was checked.
    ///
    /// # Safety
    ///
    /// The image came from [`shipped`](Self::shipped), [`compile`](Self::compile) or
    /// [`check_image`](Self::check_image) of this device: drivers read images by what their headers
    /// say.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    unsafe fn load_code(&self, image: &[u8]) -> Result<Self::Code>;

    /// Unloads code that no work uses any more.
    ///
    /// # Safety
    ///
    /// The code is loaded, and it and its functions aren't used from now on.
    unsafe fn unload_code(&self, code: Self::Code);

    /// The function of this name; `None` if there is none.
    ///
    /// # Safety
    ///
    /// The code is loaded.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    unsafe fn function(&self, code: Self::Code, name: &str) -> Result<Option<Self::Function>>;

    /// Returns the facts of a function.
    ///
    /// # Safety
    ///
    /// The function's code is loaded.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    unsafe fn function_facts(&self, function: Self::Function) -> Result<FunctionFacts>;

    /// Lets launches of a function ask for up to `bytes` of dynamic shared memory.
    ///
    /// # Safety
    ///
    /// The function's code is loaded.
    ///
    /// # Errors
    ///
    /// An error of the driver, if that is more than a block can have.
    unsafe fn reserve_shared(&self, function: Self::Function, bytes: u32) -> Result<()>;

    /// Launches a kernel; `params` point to its parameters, which are copied. Doesn't block.
    ///
    /// # Safety
    ///
    /// The stream is open and the function's code loaded; the parameters are the function's, and
    /// what they point to on the device outlives the run. A kernel that starts early waits for the
    /// launch before it.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver. The kernel has then not been queued.
    unsafe fn launch(
        &self,
        stream: Self::Stream,
        function: Self::Function,
        config: &LaunchConfig,
        params: &mut [*mut c_void],
    ) -> Result<()>;
}

/// Launches that a device takes at once.
pub trait Graphs: Streams {
    /// Launches that the device takes at once.
    type Exec: Copy + Debug + Send + Sync;

    /// Begins a capture: launches on the stream become parts of an [`Exec`](Self::Exec).
    ///
    /// # Safety
    ///
    /// The stream is open and empty, and no other thread uses it until the capture has ended.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver. Nothing is captured then.
    unsafe fn begin_capture(&self, stream: Self::Stream) -> Result<()>;

    /// Ends the capture in any case, and prepares what was captured.
    ///
    /// # Safety
    ///
    /// The stream is being captured, by [`begin_capture`](Self::begin_capture).
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    unsafe fn end_capture(&self, stream: Self::Stream) -> Result<Self::Exec>;

    /// Launches what was captured.
    ///
    /// # Safety
    ///
    /// `exec` has not been freed, the stream is open, and what the launches refer to outlives the
    /// run.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    unsafe fn launch_exec(&self, exec: Self::Exec, stream: Self::Stream) -> Result<()>;

    /// Frees what was captured; its last run may not have ended.
    ///
    /// # Safety
    ///
    /// It came from [`end_capture`](Self::end_capture), is given back once, and isn't launched from
    /// now on.
    unsafe fn free_exec(&self, exec: Self::Exec);
}
