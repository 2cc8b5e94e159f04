//! Calls of a vendor, carried out on the host's memory.

use super::blocks::{report, run_blocks};
use super::device::{Fake, Put, Step, at};
use crate::code::guard::Guard;
use crate::hal::calls::{Graphs, LaunchConfig, Memory, Modules, Vendor};
use crate::hal::facts::{Facts, FunctionFacts, GateSignal};
use crate::hal::image::Build;
use crate::hal::options::Options;
use crate::hal::streams::{PaddedParts, PaddedStreams, Padding, Reset, StreamKind, Streams};
use reef_core::{Error, Result};
use std::ffi::c_void;
use std::sync::atomic::Ordering;

fn memory(bytes: usize) -> *mut u8 {
    vec![0u64; bytes.div_ceil(8)].leak().as_mut_ptr().cast() // a test's life is short
}

// SAFETY: calls do at once, in order, what they say, or when the test says so; nothing runs but
// what the test reads.
unsafe impl Vendor for Fake {
    const NAME: &'static str = "fake";

    fn count() -> Result<usize> {
        Ok(1)
    }

    fn open(_: usize, _: &Options) -> Result<Self> {
        Ok(Self::default())
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }
}

// SAFETY: it is the host's, zeroed, and never freed.
unsafe impl Memory for Fake {
    fn alloc(&self, bytes: usize) -> Result<u64> {
        Ok(memory(bytes) as u64)
    }

    unsafe fn free(&self, memory: u64) {
        self.freed.lock().push(memory);
    }

    fn alloc_host(&self, bytes: usize) -> Result<(*mut u8, u64)> {
        let memory = memory(bytes);
        Ok((memory, memory as u64))
    }

    unsafe fn free_host(&self, _: *mut u8) {}

    unsafe fn register_host(&self, host: *mut u8, _: usize) -> Result<u64> {
        Ok(host as u64)
    }

    unsafe fn unregister_host(&self, host: *mut u8) {
        self.freed.lock().push(host as u64);
    }

    /// A handle is the address of 64 bytes.
    fn open_shared(&self, handle: &[u8; 64]) -> Result<(u64, usize)> {
        match u64::from_le_bytes(handle[..8].try_into().expect("eight bytes")) {
            0 => Err(Error::invalid("handle", "there is no such memory")),
            address => Ok((address, 64)),
        }
    }

    unsafe fn close_shared(&self, memory: u64) {
        self.closed.lock().push(memory);
    }

    fn alloc_gate(&self) -> Result<GateSignal> {
        let word = memory(8);
        Ok(GateSignal { host: word.cast(), device: word as u64 })
    }

    unsafe fn free_gate(&self, _: GateSignal) {}

    unsafe fn write(&self, to: u64, data: &[u8]) -> Result<()> {
        // SAFETY: `to` is inside memory of `memory`, which is never freed, and no work uses the
        // bytes: `Memory::write` demands it.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to as *mut u8, data.len()) };
        Ok(())
    }

    unsafe fn read(&self, from: u64, data: &mut [u8]) -> Result<()> {
        // SAFETY: `from` is inside memory of `memory`, which is never freed, and no work writes the
        // bytes: `Memory::read` demands it.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, data.as_mut_ptr(), data.len()) };
        Ok(())
    }
}

impl Streams for Fake {
    type Stream = (u32, StreamKind);

    fn open_stream(&self, kind: StreamKind) -> Result<Self::Stream> {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
        Ok((self.opened.fetch_add(1, Ordering::Relaxed), kind))
    }

    fn open_part_stream(&self, kind: StreamKind, percent: u32) -> Result<Self::Stream> {
        self.parts.lock().push((kind, percent));
        self.open_stream(kind)
    }

    unsafe fn close_stream(&self, _: Self::Stream) {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
    }

    unsafe fn is_idle(&self, _: Self::Stream) -> Result<bool> {
        Ok(!self.busy.load(Ordering::SeqCst))
    }

    unsafe fn wait(&self, _: Self::Stream) -> Result<()> {
        self.waited.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    unsafe fn wait_value(&self, _: Self::Stream, address: u64, value: u32) -> Result<()> {
        self.puts.lock().push(Put::Wait(address, value));
        if let Some(steps) = &mut *self.slow.lock() {
            steps.push_back(Step::Wait(address, value));
        }
        Ok(())
    }
}

// SAFETY: it is the host's, zeroed, and never freed.
unsafe impl Reset for Fake {
    fn alloc_signals(&self, bytes: usize) -> Result<u64> {
        self.alloc(bytes)
    }

    unsafe fn free_signals(&self, _: u64) {}

    unsafe fn write_value(&self, _: Self::Stream, address: u64, value: u32) -> Result<()> {
        let refuses = |left: u32| left.checked_sub(1);
        if self.refused_writes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuses).is_ok() {
            return Err(Error::state("a call of the device", "refused by the test"));
        }
        self.puts.lock().push(Put::Write(address, value));
        self.signal(address, value);
        Ok(())
    }
}

impl Padding for Fake {
    unsafe fn launch_padded(
        &self,
        streams: PaddedStreams<Self::Stream>,
        parts: &mut dyn PaddedParts,
    ) -> Result<()> {
        if streams.is_busy && self.refuses_order.load(Ordering::SeqCst) {
            return Err(Error::state("a call of the device", "refused by the test"));
        }
        parts.real_time()?;
        if self.is_late.load(Ordering::SeqCst) {
            parts.stop()?;
            return parts.best_effort();
        }
        parts.best_effort()?; // they run at once
        parts.stop()
    }
}

/// An image that the driver refuses.
const REFUSED: &[u8] = &[0xff];

/// A function: which it is, and whether of the guarded build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    number: u32,
    is_guarded: bool,
    /// Its plain build notes its times.
    notes: bool,
}

impl Modules for Fake {
    type Code = bool;
    type Function = Function;

    fn shipped(&self, name: &str, build: Build) -> Result<Vec<u8>> {
        match (name, self.warpgroups) {
            ("hopper", None) => Err(Error::NotFound("no device code \"hopper\"".into())),
            ("hopper", Some(false)) => Ok(REFUSED.to_vec()),
            _ => Ok(vec![(build == Build::Guarded).into()]),
        }
    }

    fn taking_turns(&self, _: &str) -> Result<Option<Vec<u8>>> {
        Ok(Some(vec![1]))
    }

    fn compile(&self, _: &str, build: Build) -> Result<Vec<u8>> {
        self.shipped("", build)
    }

    fn check_image(&self, image: &[u8]) -> Result<Vec<u8>> {
        Ok(image.into())
    }

    unsafe fn load_code(&self, image: &[u8]) -> Result<bool> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        if image == REFUSED {
            return Err(Error::invalid("image", "cannot be executed on this device"));
        }
        Ok(image == [1])
    }

    unsafe fn unload_code(&self, _: bool) {}

    unsafe fn function(&self, is_guarded: bool, name: &str) -> Result<Option<Function>> {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
        if self.missing.is_some_and(|begin| name.starts_with(begin)) {
            return Ok(None);
        }
        let number = match name {
            "stamp" => STAMP,
            "report" => REPORT,
            other => other.len() as u32,
        };
        let notes = ["append", "add", "multiply", "copy", "fill"].contains(&name);
        Ok(Some(Function { number, is_guarded, notes }))
    }

    unsafe fn function_facts(&self, function: Function) -> Result<FunctionFacts> {
        let shared = if function.is_guarded { 128 } else { 0 };
        Ok(FunctionFacts { registers: 32, shared, parameters: None })
    }

    unsafe fn reserve_shared(&self, _: Function, bytes: u32) -> Result<()> {
        self.reserved.lock().push(bytes);
        Ok(())
    }

    unsafe fn launch(
        &self,
        stream: Self::Stream,
        function: Function,
        config: &LaunchConfig,
        params: &mut [*mut c_void],
    ) -> Result<()> {
        let blocks = config.grid.iter().product();
        self.puts.lock().push(Put::Launch(function.number, blocks));
        self.launched_in.lock().push(stream.1);
        self.starts.lock().push(config.start);
        self.passed.store(params.len(), Ordering::Relaxed);
        let word = |i: usize| at::<u64>(params[i] as u64);
        match function {
            Function { number: STAMP, .. } => {
                self.note_time(word(0));
                if word(1) != 0 {
                    self.signal(word(1), word(2) as u32);
                }
            }
            Function { number: REPORT, .. } => {
                let [stopped, host, count, done, turn] = std::array::from_fn(word);
                report(stopped, host, count);
                self.signal(done, turn as u32);
            }
            Function { is_guarded: true, .. } => run_blocks(self, &at(params[0] as u64), blocks),
            Function { notes: true, .. } => {
                let guard: Guard = at(params[0] as u64);
                [guard.live, guard.stopped].into_iter().for_each(|word| self.note_time(word));
            }
            Function { .. } => {}
        }
        Ok(())
    }
}

impl Graphs for Fake {
    type Exec = usize;

    unsafe fn begin_capture(&self, _: Self::Stream) -> Result<()> {
        *self.capturing.lock() = Some(Vec::new());
        Ok(())
    }

    unsafe fn end_capture(&self, _: Self::Stream) -> Result<usize> {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
        let act = self.at_capture.lock().take();
        act.into_iter().for_each(|act| act());
        let noted = self.capturing.lock().take().unwrap_or_default();
        let mut execs = self.execs.lock();
        execs.push(noted);
        Ok(execs.len() - 1)
    }

    unsafe fn launch_exec(&self, exec: usize, _: Self::Stream) -> Result<()> {
        self.puts.lock().push(Put::Graph(exec));
        let words = self.execs.lock()[exec].clone();
        words.into_iter().for_each(|word| self.note_time(word));
        Ok(())
    }

    unsafe fn free_exec(&self, _: usize) {}
}

const STAMP: u32 = 1000;
const REPORT: u32 = 1001;
