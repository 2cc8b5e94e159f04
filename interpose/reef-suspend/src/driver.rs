//! The real driver's calls.
//!
//! Signatures are those of `cuda.h` of CUDA 12.8 to 13.4; arguments are blocks of 64 bytes of which
//! only the named fields may be set.

use crate::api::{Api, Pair, State, Uuid};
use crate::error::Error;
use crate::refusal::Refusal;
use libloading::Library;
use reef_cuda_abi::codes::SUCCESS;
use reef_guest::library_path::candidates;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

/// Name of the driver's library.
const LIBRARY: &str = "libcuda.so.1";
/// Driver that suspends programs.
const NEEDED: &str = "NVIDIA's driver, version 570 or later";

/// `CUcheckpointLockArgs`.
#[repr(C)]
struct LockArgs {
    timeout_ms: u32,
    reserved: [u32; 15],
}

/// `CUcheckpointRestoreArgs`. Before CUDA 13.0 all of it is reserved.
#[repr(C)]
struct RestoreArgs {
    pairs: *const Pair,
    count: u32,
    reserved: [u32; 13],
}

/// `CUcheckpointCheckpointArgs` and `CUcheckpointUnlockArgs`.
type NoArgs = [u64; 8];

const _: () = assert!(size_of::<LockArgs>() == 64 && size_of::<RestoreArgs>() == 64);
const _: () = assert!(size_of::<Pair>() == 32);

type Call<T> = unsafe extern "C" fn(i32, *mut T) -> u32;

/// The driver's library, initialised.
pub struct Driver {
    state: Call<u32>,
    lock: Call<LockArgs>,
    checkpoint: Call<NoArgs>,
    restore: Call<RestoreArgs>,
    unlock: Call<NoArgs>,
    count: unsafe extern "C" fn(*mut i32) -> u32,
    uuid: unsafe extern "C" fn(*mut Uuid, i32) -> u32,
    // Last: the functions are in it.
    _library: Library,
}

impl fmt::Debug for Driver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// A function of the library.
///
/// # Safety
///
/// `F` is the type of the function of this name.
unsafe fn function<F: Copy>(library: &Library, name: &'static str) -> Result<F, Error> {
    // SAFETY: `# Safety` demands that `F` is the type of the function of this name in cuda.h.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|found| *found).map_err(|_| Error::TooOld(name))
}

impl Driver {
    /// Opens and initialises the driver: the file `named`, or the first `libcuda.so.1` of the usual
    /// folders.
    ///
    /// # Errors
    ///
    /// `Absent`: there is no driver, or it finds no GPU; `TooOld`: it lacks a call.
    pub fn open(named: Option<OsString>) -> Result<Self, Error> {
        let files = candidates(LIBRARY, named);
        // SAFETY: the driver's library, or the file that the user names in its place.
        let opened = files.iter().find_map(|file| unsafe { Library::new(file) }.ok());
        let library = opened.ok_or_else(|| {
            let first = files.first().map(|file| file.display().to_string());
            let file = first.as_deref().unwrap_or(LIBRARY);
            Error::Absent(format!(
                "{file} not found: this needs {NEEDED}; REEF_CUDA names its file"
            ))
        })?;
        // SAFETY: each is of the type that `cuda.h` declares it with.
        unsafe {
            let init: unsafe extern "C" fn(u32) -> u32 = function(&library, "cuInit")?;
            let driver = Self {
                state: function(&library, "cuCheckpointProcessGetState")?,
                lock: function(&library, "cuCheckpointProcessLock")?,
                checkpoint: function(&library, "cuCheckpointProcessCheckpoint")?,
                restore: function(&library, "cuCheckpointProcessRestore")?,
                unlock: function(&library, "cuCheckpointProcessUnlock")?,
                count: function(&library, "cuDeviceGetCount")?,
                uuid: function(&library, "cuDeviceGetUuid_v2")?,
                _library: library,
            };
            checked("cuInit", init(0)).map_err(|refusal| Error::Absent(refusal.to_string()))?;
            Ok(driver)
        }
    }

    /// Identities of this process's GPUs, by ordinal.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    pub fn devices(&self) -> Result<Vec<Uuid>, Refusal> {
        let mut count = 0;
        // SAFETY: writes one number.
        checked("cuDeviceGetCount", unsafe { (self.count)(&raw mut count) })?;
        let uuid = |ordinal| {
            let mut uuid = Uuid::default();
            // SAFETY: writes 16 bytes.
            checked("cuDeviceGetUuid", unsafe { (self.uuid)(&raw mut uuid, ordinal) })?;
            Ok(uuid)
        };
        (0..count).map(uuid).collect()
    }
}

fn checked(function: &'static str, code: u32) -> Result<(), Refusal> {
    if code == SUCCESS { Ok(()) } else { Err(Refusal { function, code }) }
}

/// Number of a process as the driver takes it. Those that don't fit name no process.
fn number(pid: u32) -> i32 {
    i32::try_from(pid).unwrap_or(0)
}

impl Api for Driver {
    fn state(&self, pid: u32) -> Result<State, Refusal> {
        const NAME: &str = "cuCheckpointProcessGetState";
        let mut state = 0;
        // SAFETY: writes one number.
        checked(NAME, unsafe { (self.state)(number(pid), &raw mut state) })?;
        match state {
            0 => Ok(State::Running),
            1 => Ok(State::Locked),
            2 => Ok(State::Suspended),
            _ => Ok(State::Failed),
        }
    }

    fn lock(&self, pid: u32, timeout: Duration) -> Result<(), Refusal> {
        // Zero would be without a bound.
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1);
        let mut args = LockArgs { timeout_ms, reserved: [0; 15] };
        // SAFETY: arguments of the size that the driver reads.
        checked("cuCheckpointProcessLock", unsafe { (self.lock)(number(pid), &raw mut args) })
    }

    fn checkpoint(&self, pid: u32) -> Result<(), Refusal> {
        let mut args = NoArgs::default();
        // SAFETY: `args` is a local of the size that the driver reads.
        let code = unsafe { (self.checkpoint)(number(pid), &raw mut args) };
        checked("cuCheckpointProcessCheckpoint", code)
    }

    fn restore(&self, pid: u32, pairs: &[Pair]) -> Result<(), Refusal> {
        let (list, count) = if pairs.is_empty() {
            (std::ptr::null(), 0)
        } else {
            (pairs.as_ptr(), u32::try_from(pairs.len()).unwrap_or(u32::MAX))
        };
        let mut args = RestoreArgs { pairs: list, count, reserved: [0; 13] };
        // SAFETY: `args` is a local of the size that the driver reads, and `pairs` lives through
        // the call.
        checked("cuCheckpointProcessRestore", unsafe { (self.restore)(number(pid), &raw mut args) })
    }

    fn unlock(&self, pid: u32) -> Result<(), Refusal> {
        let mut args = NoArgs::default();
        // SAFETY: `args` is a local of the size that the driver reads.
        checked("cuCheckpointProcessUnlock", unsafe { (self.unlock)(number(pid), &raw mut args) })
    }
}
