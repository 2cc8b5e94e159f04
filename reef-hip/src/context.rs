//! An open device of AMD: what everything of it shares, and how each thing that the generic part asks
//! for is done.

use crate::driver::{BACKEND, Driver};
use crate::facts::{self, Device};
use crate::graph::{Exec, Retired};
use crate::image;
use crate::memory::Memory;
use crate::module::{Code, Function, Kernels};
use crate::split::Split;
use crate::stream::{Stream, Streams};
use parking_lot::Mutex;
use reef_core::{Dim3, Error, Priority, Result};
use reef_gpu::{Build, Facts, FunctionFacts, GateWord, Options, Precision, Vendor};
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;

/// An open device.
///
/// Nothing here waits while work is pending, except for what it is asked to wait for: memory and streams
/// that are given back are kept for the next who asks, and go back to the runtime when this is dropped.
pub struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) device: Device,
    facts: Facts,
    /// Where streams are opened, if the device is in two parts.
    pub(crate) split: Option<Split>,
    /// For zeroing, and for reads and writes that block: of a priority that nobody else has.
    pub(crate) housekeeping: Stream,
    pub(crate) streams: Mutex<Streams>,
    /// Locked after `streams`, if both are.
    pub(crate) retired: Mutex<Retired>,
    pub(crate) memory: Memory,
    /// What is loaded, and what it says of itself.
    pub(crate) loaded: Mutex<HashMap<Code, Kernels>>,
}

impl Context {
    pub(crate) fn open_with(
        driver: &'static Driver,
        ordinal: usize,
        options: &Options,
    ) -> Result<Self> {
        if options.precision == Some(Precision::Tf32) {
            let what = "precision=tf32, which needs tensor cores".into();
            return Err(Error::Unsupported { backend: BACKEND, what });
        }
        let device = Device::find(driver, ordinal)?;
        let facts = facts::read(driver, &device, false)?;
        let mut context = Self {
            split: options.split.map(|part| Split::new(facts.units, part)).transpose()?,
            driver,
            device,
            facts,
            housekeeping: Stream(std::ptr::null_mut()),
            streams: Mutex::default(),
            retired: Mutex::default(),
            memory: Memory::default(),
            loaded: Mutex::default(),
        };
        let (lowest, highest) = context.device.priorities;
        context.housekeeping = context.create_stream((lowest + highest) / 2)?;
        let graphs = context.graphs_work()?;
        context.facts = facts::read(driver, &context.device, graphs)?;
        Ok(context)
    }

    /// Makes the device this thread's current one, as every call of the runtime wants.
    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the device is there.
        unsafe { self.driver.hipSetDevice(self.device.ordinal) }
    }
}

impl Drop for Context {
    /// If a kernel never ends, all is left to the end of the process: each of these calls would wait.
    fn drop(&mut self) {
        let streams = std::mem::take(&mut *self.streams.lock());
        let all = || streams.all().chain([self.housekeeping]).filter(|stream| !stream.0.is_null());
        if !all().all(|stream| self.query(stream).is_ok_and(|idle| idle)) {
            return;
        }
        self.destroy_retired();
        for stream in all() {
            // SAFETY: nobody uses it any more.
            let _ = unsafe { self.driver.hipStreamDestroy(stream.0) };
        }
        self.memory.release(self.driver);
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
        Self::open_with(Driver::get()?, ordinal, options)
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn shipped(&self, name: &str, build: Build) -> Result<Vec<u8>> {
        image::find(name, build, &self.device.target)
    }

    fn compile(&self, _source: &str, _build: Build) -> Result<Vec<u8>> {
        Err(Error::NotFound("no hipRTC".into()))
    }

    fn check_image(&self, image: &[u8]) -> Result<Vec<u8>> {
        self.check(image)
    }

    fn alloc(&self, bytes: usize) -> Result<u64> {
        self.alloc_device(bytes)
    }

    fn free(&self, memory: u64) {
        self.free_device(memory);
    }

    fn alloc_words(&self, bytes: usize) -> Result<u64> {
        self.alloc_device(bytes)
    }

    fn free_words(&self, memory: u64) {
        self.free_device(memory);
    }

    fn alloc_host(&self, bytes: usize) -> Result<(*mut u8, u64)> {
        self.alloc_pinned(bytes)
    }

    fn free_host(&self, host: *mut u8) {
        self.free_pinned(host);
    }

    fn alloc_gate(&self) -> Result<GateWord> {
        self.alloc_signal()
    }

    fn free_gate(&self, word: GateWord) {
        self.free_signal(word);
    }

    fn write(&self, to: u64, data: &[u8]) -> Result<()> {
        self.copy_to(to, data)
    }

    fn read(&self, from: u64, data: &mut [u8]) -> Result<()> {
        self.copy_from(from, data)
    }

    fn open_stream(&self, class: Priority) -> Result<Stream> {
        self.take_stream(class)
    }

    fn close_stream(&self, stream: Stream) {
        self.keep_stream(stream);
    }

    fn is_idle(&self, stream: Stream) -> Result<bool> {
        self.query(stream)
    }

    fn wait(&self, stream: Stream) -> Result<()> {
        self.synchronize(stream)
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        function: Function,
        grid: Dim3,
        block: Dim3,
        shared: u32,
        params: &mut [*mut c_void],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_kernel(stream, function.raw, grid, block, shared, params) }
    }

    unsafe fn write_word(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.stream_write(stream, address, value) }
    }

    unsafe fn wait_word(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.stream_wait(stream, address, value) }
    }

    fn load_code(&self, image: &[u8]) -> Result<Code> {
        self.load(image)
    }

    fn unload_code(&self, code: Code) {
        self.unload(code);
    }

    fn function(&self, code: Code, name: &str) -> Result<Option<Function>> {
        self.find(code, name)
    }

    fn function_facts(&self, function: Function) -> Result<FunctionFacts> {
        self.facts_of(function)
    }

    fn reserve_shared(&self, function: Function, bytes: u32) -> Result<()> {
        self.check_shared(function, bytes)
    }

    fn begin_capture(&self, stream: Stream) -> Result<()> {
        self.begin(stream)
    }

    fn end_capture(&self, stream: Stream) -> Result<Exec> {
        self.end(stream)
    }

    unsafe fn launch_exec(&self, exec: Exec, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_graph(exec, stream) }
    }

    fn free_exec(&self, exec: Exec) {
        self.retire(exec);
    }
}
