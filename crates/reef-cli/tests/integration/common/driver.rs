//! The driver, as unmodified programs of the tests call it.

use std::ffi::c_void;
use std::path::PathBuf;

/// `cuLaunchKernel`, whose grid, block, shared memory and stream are words.
type LaunchKernel =
    extern "C" fn(usize, u32, u32, u32, u32, u32, u32, u32, usize, *const *const u64, usize) -> u32;

/// Driver with its first device's primary context.
pub(crate) struct Driver(libloading::Library);

impl Driver {
    /// Opens the driver by its name, and makes the context current.
    pub(crate) fn start() -> Self {
        // SAFETY: a driver of the tests.
        let driver = Self(unsafe { libloading::Library::new("libcuda.so.1") }.unwrap());
        assert_eq!(driver.one("cuInit")(0), 0);
        driver.use_context();
        driver
    }

    /// Opens the driver by its name, and makes its device's primary context current.
    pub(crate) fn start_primary() -> Self {
        // SAFETY: a driver of the tests.
        let driver = Self(unsafe { libloading::Library::new("libcuda.so.1") }.unwrap());
        // SAFETY: the function has these arguments.
        let retain: extern "C" fn(*mut usize, i32) -> u32 =
            unsafe { std::mem::transmute(driver.symbol("cuDevicePrimaryCtxRetain")) };
        let mut context = 0;
        assert_eq!(driver.one("cuInit")(0), 0);
        assert_eq!(retain(&raw mut context, 0), 0);
        assert_eq!(driver.one("cuCtxSetCurrent")(context), 0);
        driver
    }

    /// Initializes the driver again. Returns the code.
    pub(crate) fn init(&self) -> u32 {
        self.one("cuInit")(0)
    }

    pub(crate) fn fill(&self, at: usize, byte: u8, bytes: usize) {
        // SAFETY: the function has these arguments.
        let fill: extern "C" fn(usize, u8, usize) -> u32 =
            unsafe { std::mem::transmute(self.symbol("cuMemsetD8_v2")) };
        assert_eq!(fill(at, byte, bytes), 0);
    }

    /// Makes the context current in this thread.
    pub(crate) fn use_context(&self) {
        assert_eq!(self.one("cuCtxSetCurrent")(1), 0);
    }

    fn symbol(&self, name: &str) -> *const c_void {
        // SAFETY: a name of the driver's; its address is not used before it is cast to its type.
        *unsafe { self.0.get::<*const c_void>(name.as_bytes()) }.unwrap()
    }

    fn one(&self, name: &str) -> extern "C" fn(usize) -> u32 {
        // SAFETY: the functions that are named have this argument.
        unsafe { std::mem::transmute(self.symbol(name)) }
    }

    /// Allocates by `cuMemAlloc_v2`. Returns the address, or the code.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<usize, u32> {
        // SAFETY: the function has these arguments.
        let allocate: extern "C" fn(*mut usize, usize) -> u32 =
            unsafe { std::mem::transmute(self.symbol("cuMemAlloc_v2")) };
        let mut at = 0;
        let code = allocate(&raw mut at, bytes);
        if code == 0 { Ok(at) } else { Err(code) }
    }

    /// Allocates by `cuMemAllocManaged`. Returns the address, or the code.
    pub(crate) fn allocate_managed(&self, bytes: usize) -> Result<usize, u32> {
        // SAFETY: the function has these arguments.
        let allocate: extern "C" fn(*mut usize, usize, u32) -> u32 =
            unsafe { std::mem::transmute(self.symbol("cuMemAllocManaged")) };
        let mut at = 0;
        let code = allocate(&raw mut at, bytes, 1);
        if code == 0 { Ok(at) } else { Err(code) }
    }

    /// Copies a word of the device.
    pub(crate) fn read(&self, from: usize) -> u64 {
        // SAFETY: the function has these arguments.
        let copy: extern "C" fn(*mut u64, usize, usize) -> u32 =
            unsafe { std::mem::transmute(self.symbol("cuMemcpyDtoH_v2")) };
        let mut word = 0;
        assert_eq!(copy(&raw mut word, from, 8), 0);
        word
    }

    /// Waits for all work.
    pub(crate) fn synchronize(&self) {
        // SAFETY: the function has no arguments.
        let wait: extern "C" fn() -> u32 =
            unsafe { std::mem::transmute(self.symbol("cuCtxSynchronize")) };
        assert_eq!(wait(), 0);
    }

    /// Returns a launch of the kernel that adds a value to the number at `to`.
    pub(crate) fn adder(&self, to: usize) -> impl Fn(u64) {
        // SAFETY: the function has these arguments.
        let find: extern "C" fn(*mut usize, usize, *const u8) -> u32 =
            unsafe { std::mem::transmute(self.symbol("cuModuleGetFunction")) };
        // SAFETY: the function has the arguments of `LaunchKernel`.
        let launch: LaunchKernel = unsafe { std::mem::transmute(self.symbol("cuLaunchKernel")) };
        let mut add = 0;
        assert_eq!(find(&raw mut add, 0, c"add".as_ptr().cast()), 0);
        move |value| {
            let to = to as u64;
            let params = [&raw const to, &raw const value];
            assert_eq!(launch(add, 1, 1, 1, 1, 1, 1, 0, 0, params.as_ptr(), 0), 0);
        }
    }
}

/// Path of a library that cargo built.
pub(crate) fn library(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let path = program.parent().unwrap().join(name);
    assert!(path.is_file(), "no {path:?}");
    path
}
