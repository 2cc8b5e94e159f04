//! A vendor whose device is the host's memory, for tests. Streams note what is put into them; what they
//! write arrives at once. Guarded kernels claim their blocks and give them back as kernels/reef.h does, and
//! note which blocks have taken effect; what they compute is left out.

use crate::code::guard::{Guard, MAX_BLOCKS};
use crate::vendor::calls::{Graphs, Memory, Modules, Streams, Vendor};
use crate::vendor::facts::{Facts, FunctionFacts, GateSignal, TickRate};
use crate::vendor::image::Build;
use crate::vendor::options::Options;
use parking_lot::Mutex;
use reef_core::{Dim3, Priority, Result};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

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

/// What a stream does to a signal, in order.
#[derive(Debug, Clone, Copy)]
enum Step {
    Write(u64, u32),
    Wait(u64, u32),
}

/// An open device.
pub(crate) struct Fake {
    facts: Facts,
    pub(crate) puts: Mutex<Vec<Put>>,
    /// What streams have to do, if that isn't done at once.
    slow: Mutex<Option<VecDeque<Step>>>,
    /// Calls that take locks of a real driver for long: streams opened and closed, captures, functions looked up.
    pub(crate) slow_calls: AtomicU32,
    /// Is called by the next capture.
    at_capture: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Streams that were opened.
    pub(crate) opened: AtomicU32,
    /// Device memory that was given back.
    pub(crate) freed: Mutex<Vec<u64>>,
    /// Whether blocks that have started meet an eviction before they end.
    hurried: AtomicBool,
    /// Blocks of guarded kernels that have taken effect.
    pub(crate) ran: Mutex<Vec<u32>>,
    /// Parameters of the newest launch.
    pub(crate) passed: AtomicUsize,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").field("puts", &self.puts).finish_non_exhaustive()
    }
}

impl Fake {
    /// One that takes several launches at once.
    pub(crate) fn with_graphs() -> Self {
        let mut fake = Self::default();
        fake.facts.graphs = true;
        fake
    }

    /// The next capture calls `act` before it ends.
    pub(crate) fn at_next_capture(&self, act: impl FnOnce() + Send + 'static) {
        *self.at_capture.lock() = Some(Box::new(act));
    }

    /// From now on signals arrive when told to.
    pub(crate) fn slow_down(&self) {
        *self.slow.lock() = Some(VecDeque::new());
    }

    /// The device sets a signal, now or when told to.
    fn signal(&self, address: u64, value: u32) {
        match &mut *self.slow.lock() {
            None => set((address, value)),
            Some(steps) => steps.push_back(Step::Write(address, value)),
        }
    }

    /// From now on no block ends before an eviction, unless it runs through.
    pub(crate) fn hurry(&self) {
        self.hurried.store(true, Ordering::Relaxed);
    }

    /// Lets up to `most` signals arrive, but none behind a wait that isn't over: how many did.
    pub(crate) fn proceed(&self, most: usize) -> usize {
        let mut slow = self.slow.lock();
        let steps = slow.as_mut().expect("it was slowed down");
        let mut count = 0;
        while let Some(&step) = steps.front() {
            match step {
                Step::Wait(address, value) if at::<u32>(address) != value => break,
                Step::Write(..) if count == most => break,
                Step::Write(address, value) => {
                    set((address, value));
                    count += 1;
                }
                Step::Wait(..) => {}
            }
            steps.pop_front();
        }
        count
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
            memory: None,
            uuid: None,
            units: 4,
            be_units: 4,
            blocks_per_unit: 8,
            threads_per_unit: 1024,
            registers_per_unit: 65536,
            shared_per_unit: 65536,
            shared_per_block: 65536,
            wave: 32,
            tensor_cores: false,
            writes_values: true,
            waits_values: true,
            tick_rate: TickRate::Known(1_000_000_000),
            graphs: false,
            features: Vec::new(),
        };
        Self {
            opened: AtomicU32::new(0),
            facts,
            puts: Mutex::default(),
            slow: Mutex::new(None),
            slow_calls: AtomicU32::new(0),
            at_capture: Mutex::new(None),
            freed: Mutex::default(),
            hurried: AtomicBool::new(false),
            ran: Mutex::default(),
            passed: AtomicUsize::new(0),
        }
    }
}

/// The value at an address of the device.
fn at<T: Copy>(address: u64) -> T {
    // SAFETY: addresses are those of `memory`, or of parameters that outlive the call.
    unsafe { *(address as *const T) }
}

/// Runs the blocks of a guarded kernel, or gives them back: `Block` in kernels/reef.h.
fn run_blocks(fake: &Fake, guard: &Guard, count: u32) {
    for place in 0..count {
        let entry = match guard.list_in {
            0 => guard.first + place,
            list => at(list + u64::from(place) * 4),
        };
        let (index, stops) = (entry & MAX_BLOCKS, entry >> 30);
        let epoch = if guard.epoch_word == 0 { guard.epoch } else { at(guard.epoch_word) };
        let is_void = (epoch.wrapping_sub(at(guard.live)) as i32) < 0;
        let is_stopped = fake.hurried.load(Ordering::Relaxed) && guard.may_stop != 0 && stops < 2;
        match (is_void, is_stopped) {
            (true, _) => give_back(guard, entry),
            (false, true) => give_back(guard, index | (stops + 1) << 30),
            (false, false) => fake.ran.lock().push(index),
        }
    }
}

fn give_back(guard: &Guard, entry: u32) {
    let stopped: u32 = at(guard.stopped);
    set((guard.list_out + u64::from(stopped) * 4, entry));
    set((guard.stopped, stopped + 1));
}

/// The kernel `report` up to its signal: tells the host the counts and clears them.
fn report(stopped: u64, host: u64, count: u64) {
    for i in 0..count {
        set((host + i * 4, at(stopped + i * 4)));
        set((stopped + i * 4, 0));
    }
}

fn memory(bytes: usize) -> *mut u8 {
    vec![0u64; bytes.div_ceil(8)].leak().as_mut_ptr().cast() // a test's life is short
}

impl Vendor for Fake {
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

impl Memory for Fake {
    fn alloc(&self, bytes: usize) -> Result<u64> {
        Ok(memory(bytes) as u64)
    }

    unsafe fn free(&self, memory: u64) {
        self.freed.lock().push(memory);
    }

    fn alloc_signals(&self, bytes: usize) -> Result<u64> {
        self.alloc(bytes)
    }

    unsafe fn free_signals(&self, _: u64) {}

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

    fn alloc_gate(&self) -> Result<GateSignal> {
        let word = memory(8);
        Ok((word.cast(), word as u64))
    }

    unsafe fn free_gate(&self, _: GateSignal) {}

    unsafe fn write(&self, to: u64, data: &[u8]) -> Result<()> {
        // SAFETY: addresses are those of `memory`, and the caller has checked the range.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to as *mut u8, data.len()) };
        Ok(())
    }

    unsafe fn read(&self, from: u64, data: &mut [u8]) -> Result<()> {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, data.as_mut_ptr(), data.len()) };
        Ok(())
    }
}

impl Streams for Fake {
    type Stream = u32;

    fn open_stream(&self, _: Priority) -> Result<u32> {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
        Ok(self.opened.fetch_add(1, Ordering::Relaxed))
    }

    unsafe fn close_stream(&self, _: u32) {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
    }

    unsafe fn is_idle(&self, _: u32) -> Result<bool> {
        Ok(true)
    }

    unsafe fn wait(&self, _: u32) -> Result<()> {
        Ok(())
    }

    unsafe fn write_value(&self, _: u32, address: u64, value: u32) -> Result<()> {
        self.puts.lock().push(Put::Write(address, value));
        self.signal(address, value);
        Ok(())
    }

    unsafe fn wait_value(&self, _: u32, address: u64, value: u32) -> Result<()> {
        self.puts.lock().push(Put::Wait(address, value));
        if let Some(steps) = &mut *self.slow.lock() {
            steps.push_back(Step::Wait(address, value));
        }
        Ok(())
    }
}

/// A function: which it is, and whether of the guarded build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    number: u32,
    is_guarded: bool,
}

impl Modules for Fake {
    type Code = bool;
    type Function = Function;

    fn shipped(&self, _: &str, build: Build) -> Result<Vec<u8>> {
        Ok(vec![(build == Build::Guarded).into()])
    }

    fn compile(&self, _: &str, build: Build) -> Result<Vec<u8>> {
        self.shipped("", build)
    }

    fn check_image(&self, image: &[u8]) -> Result<Vec<u8>> {
        Ok(image.into())
    }

    unsafe fn load_code(&self, image: &[u8]) -> Result<bool> {
        Ok(image == [1])
    }

    unsafe fn unload_code(&self, _: bool) {}

    unsafe fn function(&self, is_guarded: bool, name: &str) -> Result<Option<Function>> {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
        let number = match name {
            "stamp" => STAMP,
            "report" => REPORT,
            other => other.len() as u32,
        };
        Ok(Some(Function { number, is_guarded }))
    }

    unsafe fn function_facts(&self, _: Function) -> Result<FunctionFacts> {
        Ok(FunctionFacts { registers: 32, shared: 0, parameters: None })
    }

    unsafe fn reserve_shared(&self, _: Function, _: u32) -> Result<()> {
        Ok(())
    }

    unsafe fn launch(
        &self,
        _: u32,
        function: Function,
        grid: Dim3,
        _: Dim3,
        _: u32,
        params: &mut [*mut c_void],
    ) -> Result<()> {
        let blocks = grid.iter().product();
        self.puts.lock().push(Put::Launch(function.number, blocks));
        self.passed.store(params.len(), Ordering::Relaxed);
        let word = |i: usize| at::<u64>(params[i] as u64);
        match function {
            Function { number: STAMP, .. } => {
                // SAFETY: they are an event's address, a timeline signal's and its value.
                unsafe {
                    *(word(0) as *mut u64) = 1;
                    *(word(1) as *mut u32) = word(2) as u32;
                }
            }
            Function { number: REPORT, .. } => {
                let [stopped, host, count, done, turn] = std::array::from_fn(word);
                report(stopped, host, count);
                self.signal(done, turn as u32);
            }
            Function { is_guarded: true, .. } => run_blocks(self, &at(params[0] as u64), blocks),
            _ => {}
        }
        Ok(())
    }
}

impl Graphs for Fake {
    type Exec = ();

    unsafe fn begin_capture(&self, _: u32) -> Result<()> {
        Ok(())
    }

    unsafe fn end_capture(&self, _: u32) -> Result<()> {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
        let act = self.at_capture.lock().take();
        act.into_iter().for_each(|act| act());
        Ok(())
    }

    unsafe fn launch_exec(&self, (): (), _: u32) -> Result<()> {
        Ok(())
    }

    unsafe fn free_exec(&self, (): ()) {}
}

const STAMP: u32 = 1000;
const REPORT: u32 = 1001;
