//! A vendor whose device is the host's memory, for tests. Streams note what is put into them; what they
//! write arrives at once, and what is launched does nothing.

use crate::vendor::calls::{Graphs, Memory, Modules, Streams, Vendor};
use crate::vendor::facts::{Facts, FunctionFacts, GateSignal};
use crate::vendor::image::Build;
use crate::vendor::options::Options;
use parking_lot::Mutex;
use reef_core::{Dim3, Priority, Result};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What was put into a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// A launch of a function with this many blocks.
    Launch(u32, u32),
    /// The word at this address was set.
    Write(u64, u32),
    /// A wait for the word at this address.
    Wait(u64, u32),
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Fake {
    facts: Facts,
    pub(crate) puts: Mutex<Vec<Put>>,
    /// SignalPool that streams have to write, if they don't arrive at once.
    slow: Mutex<Option<VecDeque<(u64, u32)>>>,
    /// Device memory that was given back.
    pub(crate) freed: Mutex<Vec<u64>>,
}

impl Fake {
    /// From now on words arrive when told to.
    pub(crate) fn slow_down(&self) {
        *self.slow.lock() = Some(VecDeque::new());
    }

    /// Lets the next `count` words arrive.
    pub(crate) fn proceed(&self, count: usize) {
        let words: Vec<_> =
            self.slow.lock().as_mut().map_or(Vec::new(), |w| w.drain(..count).collect());
        words.into_iter().for_each(set);
    }
}

fn set((address, value): (u64, u32)) {
    // SAFETY: addresses are those of `memory`, which is never freed.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }.store(value, Ordering::Release);
}

impl Default for Fake {
    fn default() -> Self {
        let facts = Facts {
            name: "fake".into(),
            units: 4,
            blocks_per_unit: 8,
            threads_per_unit: 1024,
            registers_per_unit: 65536,
            shared_per_unit: 65536,
            shared_per_block: 65536,
            wave: 32,
            tensor_cores: false,
            writes_values: true,
            waits_values: true,
            grace: Duration::from_micros(20),
            graphs: false,
            features: Vec::new(),
        };
        Self { facts, puts: Mutex::default(), slow: Mutex::new(None), freed: Mutex::default() }
    }
}

fn memory(bytes: usize) -> *mut u8 {
    vec![0u64; bytes.div_ceil(8)].leak().as_mut_ptr().cast() // a test's life is short
}

impl Vendor for Fake {
    const NAME: &'static str = "fake";

    fn open(_: usize, _: &Options) -> Result<Self> {
        Ok(Self::default())
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }
}

impl Memory for Fake {
    fn alloc(&self, bytes: usize) -> Result<u64> {
        Ok(memory(bytes) as u64)
    }

    fn free(&self, memory: u64) {
        self.freed.lock().push(memory);
    }

    fn alloc_signals(&self, bytes: usize) -> Result<u64> {
        self.alloc(bytes)
    }

    fn free_signals(&self, _: u64) {}

    fn alloc_host(&self, bytes: usize) -> Result<(*mut u8, u64)> {
        let memory = memory(bytes);
        Ok((memory, memory as u64))
    }

    fn free_host(&self, _: *mut u8) {}

    unsafe fn register_host(&self, host: *mut u8, _: usize) -> Result<u64> {
        Ok(host as u64)
    }

    fn unregister_host(&self, host: *mut u8) {
        self.freed.lock().push(host as u64);
    }

    fn alloc_gate(&self) -> Result<GateSignal> {
        let word = memory(8);
        Ok((word.cast(), word as u64))
    }

    fn free_gate(&self, _: GateSignal) {}

    fn write(&self, to: u64, data: &[u8]) -> Result<()> {
        // SAFETY: addresses are those of `memory`, and the caller has checked the range.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to as *mut u8, data.len()) };
        Ok(())
    }

    fn read(&self, from: u64, data: &mut [u8]) -> Result<()> {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, data.as_mut_ptr(), data.len()) };
        Ok(())
    }
}

impl Streams for Fake {
    type Stream = u32;

    fn open_stream(&self, _: Priority) -> Result<u32> {
        Ok(0)
    }

    fn close_stream(&self, _: u32) {}

    fn is_idle(&self, _: u32) -> Result<bool> {
        Ok(true)
    }

    fn wait(&self, _: u32) -> Result<()> {
        Ok(())
    }

    unsafe fn write_value(&self, _: u32, address: u64, value: u32) -> Result<()> {
        self.puts.lock().push(Put::Write(address, value));
        match &mut *self.slow.lock() {
            None => set((address, value)),
            Some(words) => words.push_back((address, value)),
        }
        Ok(())
    }

    unsafe fn wait_value(&self, _: u32, address: u64, value: u32) -> Result<()> {
        self.puts.lock().push(Put::Wait(address, value));
        Ok(())
    }
}

impl Modules for Fake {
    type Code = ();
    type Function = u32;

    fn shipped(&self, _: &str, _: Build) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn compile(&self, _: &str, _: Build) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn check_image(&self, image: &[u8]) -> Result<Vec<u8>> {
        Ok(image.into())
    }

    fn load_code(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn unload_code(&self, (): ()) {}

    fn function(&self, (): (), name: &str) -> Result<Option<u32>> {
        Ok(Some(if name == "stamp" { STAMP } else { name.len() as u32 }))
    }

    fn function_facts(&self, _: u32) -> Result<FunctionFacts> {
        Ok(FunctionFacts { registers: 32, shared: 0, parameters: None })
    }

    fn reserve_shared(&self, _: u32, _: u32) -> Result<()> {
        Ok(())
    }

    /// Of kernels whose names are those of kernels/builtin.cu, `stamp` alone does what it should.
    unsafe fn launch(
        &self,
        _: u32,
        function: u32,
        grid: Dim3,
        _: Dim3,
        _: u32,
        params: &mut [*mut c_void],
    ) -> Result<()> {
        self.puts.lock().push(Put::Launch(function, grid.iter().product()));
        if function == STAMP {
            let word = |i: usize| {
                // SAFETY: its three parameters are words.
                unsafe { *params[i].cast::<u64>() }
            };
            // SAFETY: they are an event's address, a timeline word's and its value.
            unsafe {
                *(word(0) as *mut u64) = 1;
                *(word(1) as *mut u32) = word(2) as u32;
            }
        }
        Ok(())
    }
}

impl Graphs for Fake {
    type Exec = ();

    fn begin_capture(&self, _: u32) -> Result<()> {
        Ok(())
    }

    fn end_capture(&self, _: u32) -> Result<()> {
        Ok(())
    }

    unsafe fn launch_exec(&self, (): (), _: u32) -> Result<()> {
        Ok(())
    }

    fn free_exec(&self, (): ()) {}
}

const STAMP: u32 = 1000;
