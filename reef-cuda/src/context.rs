//! An open device, as the driver runs it.
//!
//! The context is the device's primary one, which other libraries in the process use as well, so
//! buffers and kernels of theirs can be mixed with ours.

use crate::driver::{BACKEND, Driver, NOT_READY};
use crate::facts::{self, Own, find};
use crate::image;
use crate::source::compile_user;
use crate::split::Split;
use cudarc::driver::sys::*;
use reef_core::{Dim3, Error, Priority, Result};
use reef_gpu::{Build, Facts, FunctionFacts, GateWord, Options, Vendor};
use std::ffi::{CString, c_int, c_uint, c_void};
use std::fmt;

/// `CU_STREAM_NON_BLOCKING`: no hidden order with the legacy default stream.
const NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: other threads, and allocations of ours, are not disturbed.
const RELAXED: c_uint = 2;
/// `CU_STREAM_WAIT_VALUE_EQ`
const EQUAL: c_uint = 1;
/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`
const STATIC_SHARED: c_uint = 1;
/// `CU_FUNC_ATTRIBUTE_NUM_REGS`
const REGISTERS: c_uint = 4;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const DYNAMIC_SHARED: c_uint = 8;
/// `CUDA_ERROR_NOT_FOUND`
const NO_SUCH_NAME: u32 = 500;

macro_rules! handles {
    ($($name:ident($raw:ty);)+) => {$(
        /// A handle of the driver.
        #[derive(Debug, Clone, Copy)]
        pub struct $name($raw);

        // SAFETY: a handle that the driver lets any thread use.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )+};
}

handles! {
    Stream(CUstream);
    Code(CUmodule);
    Function(CUfunction);
    Exec(CUgraphExec);
}

/// A retained primary context.
struct Primary {
    driver: &'static Driver,
    device: CUdevice,
    raw: CUcontext,
}

impl Primary {
    fn retain(driver: &'static Driver, device: CUdevice) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the device is one that the driver gave; released when this is dropped.
        unsafe { driver.cuDevicePrimaryCtxRetain(&mut raw, device) }?;
        Ok(Self { driver, device, raw })
    }

    fn bind(&self) -> Result<()> {
        // SAFETY: the context is retained.
        unsafe { self.driver.cuCtxSetCurrent(self.raw) }
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// An open device.
pub struct Context {
    driver: &'static Driver,
    facts: Facts,
    own: Own,
    /// Where streams are opened, if the device is in two parts.
    split: Option<Split>,
    /// For allocation, and for reads and writes that block.
    housekeeping: CUstream,
    primary: Primary,
}

// SAFETY: the driver's handles may be used from any thread; each call makes the context current first.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn open_with(
        driver: &'static Driver,
        ordinal: usize,
        rt_units: Option<u32>,
    ) -> Result<Self> {
        let primary = Primary::retain(driver, find(driver, ordinal)?)?;
        primary.bind()?;
        let (facts, own) = facts::read(driver, primary.device)?;
        let split = rt_units.map(|units| Split::new(driver, primary.device, units)).transpose()?;
        let housekeeping = std::ptr::null_mut();
        let mut context = Self { driver, facts, own, split, housekeeping, primary };
        context.housekeeping = context.open_stream(Priority::RealTime)?.0;
        context.keep_freed_memory()?;
        Ok(context)
    }

    /// Makes this the thread's current context, as every call of the driver wants.
    fn bind(&self) -> Result<()> {
        self.primary.bind()
    }

    fn zero(&self, memory: CUdeviceptr, bytes: usize) -> Result<()> {
        // SAFETY: the fill stays inside what was allocated.
        unsafe {
            self.driver.cuMemsetD8Async(memory, 0, bytes, self.housekeeping)?;
            self.driver.cuStreamSynchronize(self.housekeeping)
        }
    }

    /// Lets the pool keep what is freed: giving it back to the system takes milliseconds.
    fn keep_freed_memory(&self) -> Result<()> {
        /// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
        const RELEASE_THRESHOLD: c_uint = 4;
        if !self.own.pools {
            return Ok(());
        }
        let (mut pool, mut all) = (std::ptr::null_mut(), u64::MAX);
        // SAFETY: the pointers are valid for the calls.
        unsafe {
            self.driver.cuDeviceGetDefaultMemPool(&mut pool, self.primary.device)?;
            let all: *mut c_void = (&raw mut all).cast();
            self.driver.cuMemPoolSetAttribute(pool, RELEASE_THRESHOLD, all)
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.bind().is_ok() && !self.housekeeping.is_null() {
            // SAFETY: nobody uses the stream any more.
            let _ = unsafe { self.driver.cuStreamDestroy_v2(self.housekeeping) };
        }
    }
}

/// The driver doesn't say how much was asked for.
fn asked(error: Error, bytes: usize) -> Error {
    match error {
        Error::OutOfMemory { backend, .. } => Error::OutOfMemory { backend, asked: bytes },
        other => other,
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Vendor for Context {
    const NAME: &'static str = BACKEND;
    type Stream = Stream;
    type Code = Code;
    type Function = Function;
    type Exec = Exec;

    fn open(ordinal: usize, options: &Options) -> Result<Self> {
        Self::open_with(Driver::get()?, ordinal, options.split)
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn shipped(&self, name: &str, build: Build) -> Result<Vec<u8>> {
        image::find(name, build, self.own.capability)
    }

    fn compile(&self, source: &str, build: Build) -> Result<Vec<u8>> {
        compile_user(source, self.own.capability, build)
    }

    fn check_image(&self, image: &[u8]) -> Result<Vec<u8>> {
        image::check(image)
    }

    fn alloc(&self, bytes: usize) -> Result<u64> {
        if !self.own.pools {
            return self.alloc_words(bytes);
        }
        self.bind()?;
        let mut memory = 0;
        // SAFETY: the pointer is valid for the call.
        let done = unsafe { self.driver.cuMemAllocAsync(&mut memory, bytes, self.housekeeping) };
        done.map_err(|error| asked(error, bytes))?;
        self.zero(memory, bytes).inspect_err(|_| self.free(memory))?;
        Ok(memory)
    }

    fn free(&self, memory: u64) {
        if !self.own.pools {
            return self.free_words(memory);
        }
        if self.bind().is_ok() {
            // SAFETY: it came from the pool, once. Of a lost device there is nothing to free.
            let _ = unsafe { self.driver.cuMemFreeAsync(memory, self.housekeeping) };
        }
    }

    /// Not from the driver's pool, whose memory streams can't write words in.
    fn alloc_words(&self, bytes: usize) -> Result<u64> {
        self.bind()?;
        let mut memory = 0;
        // SAFETY: the pointer is valid for the call.
        let done = unsafe { self.driver.cuMemAlloc_v2(&mut memory, bytes) };
        done.map_err(|error| asked(error, bytes))?;
        self.zero(memory, bytes).inspect_err(|_| self.free_words(memory))?;
        Ok(memory)
    }

    fn free_words(&self, memory: u64) {
        if self.bind().is_ok() {
            // SAFETY: it came from `alloc_words`, once.
            let _ = unsafe { self.driver.cuMemFree_v2(memory) };
        }
    }

    fn alloc_host(&self, bytes: usize) -> Result<(*mut u8, u64)> {
        /// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
        const FLAGS: c_uint = 3;
        self.bind()?;
        let (mut host, mut device) = (std::ptr::null_mut(), 0);
        // SAFETY: the pointers are valid for the calls.
        unsafe {
            let done = self.driver.cuMemHostAlloc(&mut host, bytes, FLAGS);
            done.map_err(|error| asked(error, bytes))?;
            let mapped = self.driver.cuMemHostGetDevicePointer_v2(&mut device, host, 0);
            mapped.inspect_err(|_| self.free_host(host.cast()))?;
            std::ptr::write_bytes(host.cast::<u8>(), 0, bytes);
        }
        Ok((host.cast(), device))
    }

    fn free_host(&self, host: *mut u8) {
        if self.bind().is_ok() {
            // SAFETY: it came from `alloc_host`, once.
            let _ = unsafe { self.driver.cuMemFreeHost(host.cast()) };
        }
    }

    fn alloc_gate(&self) -> Result<GateWord> {
        let (host, device) = self.alloc_host(size_of::<u32>())?;
        Ok((host.cast(), device))
    }

    fn free_gate(&self, (host, _): GateWord) {
        self.free_host(host.cast());
    }

    fn write(&self, to: u64, data: &[u8]) -> Result<()> {
        self.bind()?;
        let (driver, stream) = (self.driver, self.housekeeping);
        // SAFETY: the caller has checked the range; `data` outlives the call, which waits.
        unsafe {
            driver.cuMemcpyHtoDAsync_v2(to, data.as_ptr().cast(), data.len(), stream)?;
            driver.cuStreamSynchronize(stream)
        }
    }

    fn read(&self, from: u64, data: &mut [u8]) -> Result<()> {
        self.bind()?;
        let (driver, stream) = (self.driver, self.housekeeping);
        // SAFETY: the caller has checked the range; `data` outlives the call, which waits.
        unsafe {
            driver.cuMemcpyDtoHAsync_v2(data.as_mut_ptr().cast(), from, data.len(), stream)?;
            driver.cuStreamSynchronize(stream)
        }
    }

    fn open_stream(&self, class: Priority) -> Result<Stream> {
        self.bind()?;
        let (lowest, highest) = self.own.priorities;
        let priority = if class == Priority::RealTime { highest } else { lowest };
        if let Some(split) = &self.split {
            return split.stream(class, priority).map(Stream);
        }
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        unsafe { self.driver.cuStreamCreateWithPriority(&mut stream, NON_BLOCKING, priority) }?;
        Ok(Stream(stream))
    }

    fn close_stream(&self, stream: Stream) {
        if self.bind().is_ok() {
            // SAFETY: opened once, and nobody uses it any more.
            let _ = unsafe { self.driver.cuStreamDestroy_v2(stream.0) };
        }
    }

    fn is_idle(&self, stream: Stream) -> Result<bool> {
        self.bind()?;
        // SAFETY: the stream is open.
        match unsafe { (self.driver.cuStreamQuery)(stream.0) } {
            NOT_READY => Ok(false),
            code => self.driver.check("cuStreamQuery", code).map(|()| true),
        }
    }

    fn wait(&self, stream: Stream) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream is open.
        unsafe { self.driver.cuStreamSynchronize(stream.0) }
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        function: Function,
        [grid_x, grid_y, grid_z]: Dim3,
        [block_x, block_y, block_z]: Dim3,
        shared: u32,
        params: &mut [*mut c_void],
    ) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise; the driver copies the parameters before it returns.
        unsafe {
            self.driver.cuLaunchKernel(
                function.0,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                shared,
                stream.0,
                params.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
    }

    unsafe fn write_word(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuStreamWriteValue32_v2(stream.0, address, value, 0) }
    }

    unsafe fn wait_word(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuStreamWaitValue32_v2(stream.0, address, value, EQUAL) }
    }

    fn load_code(&self, image: &[u8]) -> Result<Code> {
        self.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the image is complete, as far as its own headers tell.
        unsafe { self.driver.cuModuleLoadData(&mut raw, image.as_ptr().cast()) }?;
        Ok(Code(raw))
    }

    fn unload_code(&self, code: Code) {
        if self.bind().is_ok() {
            // SAFETY: loaded once, and no work uses it any more.
            let _ = unsafe { self.driver.cuModuleUnload(code.0) };
        }
    }

    fn function(&self, code: Code, name: &str) -> Result<Option<Function>> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        self.bind()?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with a NUL.
        match unsafe { (self.driver.cuModuleGetFunction)(&mut function, code.0, name.as_ptr()) } {
            NO_SUCH_NAME => Ok(None),
            raw => self.driver.check("cuModuleGetFunction", raw).map(|()| Some(Function(function))),
        }
    }

    fn function_facts(&self, function: Function) -> Result<FunctionFacts> {
        self.bind()?;
        Ok(FunctionFacts {
            registers: self.attribute(function, REGISTERS)?,
            shared: self.attribute(function, STATIC_SHARED)?,
            parameters: self.parameter_sizes(function),
        })
    }

    fn reserve_shared(&self, function: Function, bytes: u32) -> Result<()> {
        self.bind()?;
        // SAFETY: the function is loaded.
        unsafe { self.driver.cuFuncSetAttribute(function.0, DYNAMIC_SHARED, bytes as c_int) }
    }

    fn begin_capture(&self, stream: Stream) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream is open.
        unsafe { self.driver.cuStreamBeginCapture_v2(stream.0, RELAXED) }
    }

    fn end_capture(&self, stream: Stream) -> Result<Exec> {
        self.bind()?;
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream is being captured; the driver makes its own copy of the graph.
        unsafe {
            self.driver.cuStreamEndCapture(stream.0, &mut graph)?;
            let made = self.driver.cuGraphInstantiateWithFlags(&mut exec, graph, 0);
            let _ = self.driver.cuGraphDestroy(graph);
            made?;
            let uploaded = self.driver.cuGraphUpload(exec, stream.0);
            uploaded.inspect_err(|_| self.free_exec(Exec(exec)))?;
        }
        Ok(Exec(exec))
    }

    unsafe fn launch_exec(&self, exec: Exec, stream: Stream) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuGraphLaunch(exec.0, stream.0) }
    }

    fn free_exec(&self, exec: Exec) {
        if self.bind().is_ok() {
            // SAFETY: made once. The driver frees it when its last run has ended.
            let _ = unsafe { self.driver.cuGraphExecDestroy(exec.0) };
        }
    }
}

impl Context {
    fn attribute(&self, function: Function, which: c_uint) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the pointer is valid for the call, the function is loaded.
        unsafe { self.driver.cuFuncGetAttribute(&mut value, which, function.0) }?;
        Ok(value as u32)
    }

    /// Bytes of each parameter of a kernel; `None`: this driver can't tell.
    fn parameter_sizes(&self, function: Function) -> Option<Vec<usize>> {
        let info = self.driver.cuFuncGetParamInfo?;
        let (mut offset, mut size, mut sizes) = (0, 0, Vec::new());
        // SAFETY: the pointers are valid for the call, the function is loaded.
        while unsafe { info(function.0, sizes.len(), &mut offset, &mut size) } == 0 {
            sizes.push(size);
        }
        Some(sizes)
    }
}
