//! The driver: the few functions that gates need, found at run time.
//!
//! Handles are words. Names and numbers are those of cuda.h.

#![allow(non_snake_case, reason = "names of vendors' calls are theirs")]

use crate::fault::{Fault, Result};
use libloading::Library;
use reef_cuda_abi::codes::NOT_READY;
use std::ffi::{CStr, c_char, c_ulong};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

/// `CU_STREAM_WAIT_VALUE_GEQ`
const AT_LEAST: u32 = 0;
/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`
const SHARED: u32 = 3;

macro_rules! table {
    (
        needed { $($name:ident($($type:ty),*);)+ }
        optional { $($maybe:ident($($mtype:ty),*);)+ }
    ) => {
        struct Table {
            $($name: unsafe extern "C" fn($($type),*) -> u32,)+
            $($maybe: Option<unsafe extern "C" fn($($mtype),*) -> u32>,)+
        }

        impl Table {
            fn resolve(library: &Library) -> Result<Self> {
                Ok(Self {
                    // SAFETY: the types are those of cuda.h, and the library is never closed.
                    $($name: *unsafe { library.get(stringify!($name)) }
                        .map_err(|_| missing(stringify!($name)))?,)+
                    // SAFETY: the types are those of cuda.h, and the library is never closed, so
                    // that the copied pointer stays valid.
                    $($maybe: unsafe { library.get(stringify!($maybe)) }.ok().map(|call| *call),)+
                })
            }
        }
    };
}

table! {
    needed {
        cuGetErrorName(u32, *mut *const c_char);
        cuCtxGetCurrent(*mut usize);
        cuCtxSetCurrent(usize);
        cuStreamSynchronize(usize);
        cuStreamQuery(usize);
        cuStreamWriteValue32_v2(usize, u64, u32, u32);
        cuStreamWaitValue32_v2(usize, u64, u32, u32);
        cuMemHostRegister_v2(usize, usize, u32);
        cuMemHostGetDevicePointer_v2(*mut u64, usize, u32);
    }
    optional {
        cuStreamIsCapturing(usize, *mut u32);
        cuStreamGetId(usize, *mut u64);
    }
}

fn missing(name: &str) -> Fault {
    Fault::invalid(format!("the CUDA driver has no {name}: older than CUDA 11.7?"))
}

/// Returns whether the program has more rights than its caller, such as by a set-user-ID bit: its
/// caller may not choose which library it loads.
fn is_privileged() -> bool {
    const SECURE: c_ulong = 23; // AT_SECURE
    unsafe extern "C" {
        fn getauxval(entry: c_ulong) -> c_ulong;
    }
    // SAFETY: the C library's function, which reads a table that no thread writes to.
    unsafe { getauxval(SECURE) != 0 }
}

/// The driver that the program uses.
pub(crate) struct Driver(Table);

impl Driver {
    /// `libcuda.so.1`, or what `$REEF_CUDA` names: looked for once.
    pub(crate) fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self> {
        #[cfg(test)]
        if fake::IS_USED {
            return Ok(Self(fake::table()));
        }
        let named = std::env::var_os("REEF_CUDA");
        let named = named.filter(|name| !name.is_empty() && !is_privileged());
        let name = named.unwrap_or_else(|| "libcuda.so.1".into());
        // SAFETY: what loading the driver runs is the driver's matter; the program has loaded it
        // already.
        let library = unsafe { Library::new(&name) };
        let library = library.map_err(|error| Fault::invalid(format!("{name:?}: {error}")))?;
        let library = ManuallyDrop::new(library); // functions of it are kept
        // SAFETY: nothing is done with it.
        if unsafe { library.get::<*const ()>("enablePreemption") }.is_ok() {
            let text = format!(
                "{name:?} is libcudareef itself: remove the links that name it like the driver"
            );
            return Err(Fault::invalid(text));
        }
        Ok(Self(Table::resolve(&library)?))
    }

    /// The thread's context.
    pub(crate) fn context(&self) -> Result<usize> {
        let mut context = 0;
        // SAFETY: a place for a word.
        self.check("cuCtxGetCurrent", unsafe { (self.0.cuCtxGetCurrent)(&mut context) })?;
        match context {
            0 => Err(Fault::invalid("the thread has no CUDA context")),
            context => Ok(context),
        }
    }

    /// Runs `work` with this context as the thread's.
    pub(crate) fn within<T>(&self, context: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut before = 0;
        // SAFETY: a place for a word.
        self.check("cuCtxGetCurrent", unsafe { (self.0.cuCtxGetCurrent)(&mut before) })?;
        if before == context {
            return work();
        }
        // SAFETY: a context that was current when a stream of it was enabled.
        self.check("cuCtxSetCurrent", unsafe { (self.0.cuCtxSetCurrent)(context) })?;
        let how = work();
        // SAFETY: what was there before, which may be none.
        self.check("cuCtxSetCurrent", unsafe { (self.0.cuCtxSetCurrent)(before) })?;
        how
    }

    /// Waits until all of the stream has run.
    pub(crate) fn synchronize(&self, stream: usize) -> Result<()> {
        // SAFETY: the program's handle.
        self.check("cuStreamSynchronize", unsafe { (self.0.cuStreamSynchronize)(stream) })
    }

    /// Returns whether all of the stream has run.
    pub(crate) fn is_idle(&self, stream: usize) -> Result<bool> {
        // SAFETY: the program's handle.
        match unsafe { (self.0.cuStreamQuery)(stream) } {
            NOT_READY => Ok(false),
            code => self.check("cuStreamQuery", code).map(|()| true),
        }
    }

    /// Returns whether the stream is being captured, as far as the driver says.
    pub(crate) fn is_capturing(&self, stream: usize) -> bool {
        let Some(call) = self.0.cuStreamIsCapturing else { return false };
        let mut status = 0;
        // SAFETY: the program's handle, and a place for a number.
        (unsafe { call(stream, &mut status) }) == 0 && status != 0
    }

    /// A number that no other stream of the program ever has, from CUDA 12 on.
    pub(crate) fn id(&self, stream: usize) -> Option<u64> {
        let (call, mut id) = (self.0.cuStreamGetId?, 0);
        // SAFETY: the program's handle, and a place for a number.
        (unsafe { call(stream, &mut id) } == 0).then_some(id)
    }

    /// The stream writes `value` to the word.
    pub(crate) fn write(&self, stream: usize, word: u64, value: u32) -> Result<()> {
        // SAFETY: the program's handle, and a word that stays registered.
        let code = unsafe { (self.0.cuStreamWriteValue32_v2)(stream, word, value, 0) };
        self.check("cuStreamWriteValue32", code)
    }

    /// The stream waits until the word is `value` or larger, counted in a circle.
    pub(crate) fn wait(&self, stream: usize, word: u64, value: u32) -> Result<()> {
        // SAFETY: `stream` is the program's handle, which the driver checks, and `word` is device
        // memory that stays registered.
        let code = unsafe { (self.0.cuStreamWaitValue32_v2)(stream, word, value, AT_LEAST) };
        self.check("cuStreamWaitValue32", code)
    }

    /// Shows memory that is never freed to the device: its address there.
    pub(crate) fn share<T>(&self, memory: &'static T) -> Result<u64> {
        let (at, mut there) = (std::ptr::from_ref(memory).expose_provenance(), 0);
        // SAFETY: memory that stays, and is touched by atomics alone.
        let code = unsafe { (self.0.cuMemHostRegister_v2)(at, size_of::<T>(), SHARED) };
        self.check("cuMemHostRegister", code)?;
        // SAFETY: it has been registered.
        let code = unsafe { (self.0.cuMemHostGetDevicePointer_v2)(&mut there, at, 0) };
        self.check("cuMemHostGetDevicePointer", code)?;
        Ok(there)
    }

    fn check(&self, call: &str, code: u32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: a place for a pointer.
        let is_known = unsafe { (self.0.cuGetErrorName)(code, &mut name) } == 0 && !name.is_null();
        let text = if is_known {
            // SAFETY: the driver's strings stay.
            unsafe { CStr::from_ptr(name) }.to_string_lossy()
        } else {
            "unknown".into()
        };
        Err(Fault::invalid(format!("cuda: {call}: {text} (code {code})")))
    }
}

/// A driver whose streams do at once what they are given, but waiting.
#[cfg(test)]
pub(crate) mod fake {
    use super::Table;
    use std::cell::Cell;
    use std::ffi::c_char;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::Duration;

    /// Instead of the machine's.
    pub(super) const IS_USED: bool = true;

    thread_local!(static CONTEXT: Cell<usize> = const { Cell::new(0) });

    pub(crate) fn set_context(context: usize) {
        CONTEXT.set(context);
    }

    /// State of registering memory: 1 it must wait, 2 it waits.
    static REGISTERING: AtomicU32 = AtomicU32::new(0);

    pub(crate) struct Registering;

    impl Registering {
        pub(crate) fn waits() -> Self {
            REGISTERING.store(1, SeqCst);
            Self
        }

        pub(crate) fn is_waiting() -> bool {
            REGISTERING.load(SeqCst) == 2
        }

        pub(crate) fn goes_on() {
            REGISTERING.store(0, SeqCst);
        }
    }

    impl Drop for Registering {
        fn drop(&mut self) {
            Self::goes_on(); // also where a test fails
        }
    }

    unsafe extern "C" fn name(_: u32, _: *mut *const c_char) -> u32 {
        1
    }

    unsafe extern "C" fn current(context: *mut usize) -> u32 {
        // SAFETY: a place for a word.
        unsafe { context.write(CONTEXT.get()) };
        0
    }

    unsafe extern "C" fn make_current(context: usize) -> u32 {
        CONTEXT.set(context);
        0
    }

    unsafe extern "C" fn nothing(_: usize) -> u32 {
        0
    }

    unsafe extern "C" fn write(_: usize, word: u64, value: u32, _: u32) -> u32 {
        // SAFETY: a word of a page that stays, at its own address.
        unsafe { AtomicU32::from_ptr(word as *mut u32) }.store(value, SeqCst);
        0
    }

    unsafe extern "C" fn wait(_: usize, _: u64, _: u32, _: u32) -> u32 {
        0
    }

    unsafe extern "C" fn register(_: usize, _: usize, _: u32) -> u32 {
        if REGISTERING.compare_exchange(1, 2, SeqCst, SeqCst).is_ok() {
            while REGISTERING.load(SeqCst) == 2 {
                std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
            }
        }
        0
    }

    unsafe extern "C" fn address(there: *mut u64, at: usize, _: u32) -> u32 {
        // SAFETY: a place for a word.
        unsafe { there.write(at as u64) };
        0
    }

    pub(super) fn table() -> Table {
        Table {
            cuGetErrorName: name,
            cuCtxGetCurrent: current,
            cuCtxSetCurrent: make_current,
            cuStreamSynchronize: nothing,
            cuStreamQuery: nothing,
            cuStreamWriteValue32_v2: write,
            cuStreamWaitValue32_v2: wait,
            cuMemHostRegister_v2: register,
            cuMemHostGetDevicePointer_v2: address,
            cuStreamIsCapturing: None,
            cuStreamGetId: None,
        }
    }
}
