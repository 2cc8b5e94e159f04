//! A real-time task next to best-effort work on a software gfx906 whose seed decides the order.

use parking_lot::Mutex;
use reef_core::dkp::Padding;
use reef_core::{
    Args, Backend, Colocation, Device, Error, Launch, PreemptLevel, Priority, Queue as _, Seq,
};
use reef_gfx906::{Record, Settings, Software};
use reef_hip::{Hip, Kernel, Queue};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

type Checkpoint = <Hip as Backend>::Checkpoint;

pub(crate) const UNITS: u32 = 60;
/// Kernels of the real-time task, one after the other.
pub(crate) const RT_KERNELS: u64 = 4;
/// Best-effort kernels, so many that real-time work ends before them.
const BE_KERNELS: u64 = 12;
/// Threads of four waves: a unit has places for ten blocks.
const THREADS: u32 = 256;

const SOURCE: &str = r#"
#include "reef.h"

// Counts each block in its cell, after `rounds` rounds of work that can't be left out.
extern "C" __global__ void toil(reef::Guard guard, unsigned *cells, reef::u64 rounds) {
    REEF_CLAIM(block, guard);
    unsigned value = threadIdx.x;
    for (reef::u64 round = 0; round < rounds; round++) asm volatile("v_add_u32 %0, 3, %0" : "+v"(value));
    REEF_PREEMPTION_POINT(block);
    if (threadIdx.x == 0) cells[block.index] += 1;
}
"#;
const ROUNDS: u64 = 24;

/// Way of sharing the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// No best-effort work.
    Alone,
    /// Both run as they like: REEF's baseline.
    Streams,
    /// This number of best-effort blocks at a time.
    Narrow(u32),
    /// Each real-time kernel is launched with this number of best-effort blocks next to it.
    Padded(u32),
    /// This number of units for real-time work alone.
    Masks(u32),
    /// [`Masks`](Self::Masks) without best-effort work.
    MasksAlone(u32),
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => write!(f, "alone"),
            Self::Streams => write!(f, "streams, as they like"),
            Self::Narrow(blocks) => write!(f, "capped, {blocks} blocks"),
            Self::Padded(blocks) => write!(f, "padded, {blocks} blocks"),
            Self::Masks(units) => write!(f, "masks, {units} units for RT"),
            Self::MasksAlone(units) => write!(f, "masks, {units} units for RT, no BE"),
        }
    }
}

/// Records of the placed blocks, in order.
pub(crate) struct Ran {
    pub(crate) rt: Vec<Record>,
    pub(crate) be: Vec<Record>,
}

impl Sharing {
    fn device(self) -> Option<Hip> {
        software();
        let options = match self {
            Self::Narrow(blocks) => format!("colocated_blocks={blocks}"),
            Self::Padded(_) => "colocation=padded".into(),
            Self::Masks(units) | Self::MasksAlone(units) => format!("split={units}"),
            Self::Alone | Self::Streams => String::new(),
        };
        match Hip::open(0, &options) {
            Ok(device) => Some(device),
            Err(Error::NotFound(why)) => {
                reef_conformance::skip(&why);
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Number of blocks that a best-effort queue runs at a time while real-time work runs.
    fn width(self, device: &Hip) -> Option<u32> {
        match (self, device.colocation()) {
            (Self::Narrow(_), Colocation::Capped(caps)) => Some(caps.long),
            _ => None,
        }
    }

    fn be_kernels(self) -> u64 {
        if matches!(self, Self::Alone | Self::MasksAlone(_)) { 0 } else { BE_KERNELS }
    }

    /// Has the device to itself; `None`, said aloud, where AMD's runtime is not installed.
    pub(crate) fn alone_with<T>(self, act: impl FnOnce(Hip) -> T) -> Option<T> {
        static TURN: Mutex<()> = Mutex::new(()); // there is one device
        let _turn = TURN.lock();
        self.device().map(act)
    }

    /// Runs the task, whose kernels have `rt_blocks` blocks each, while the others' work, in
    /// kernels of `be_blocks` blocks, is there from the beginning. `None`, said aloud, where AMD's
    /// runtime is not installed.
    pub(crate) fn run(self, rt_blocks: u32, be_blocks: u32) -> Option<Ran> {
        self.alone_with(|device| self.run_on(device, rt_blocks, be_blocks))
    }

    fn run_on(self, device: Hip, rt_blocks: u32, be_blocks: u32) -> Ran {
        let flag = device.preemptor(PreemptLevel::All).unwrap();
        let queue = device.queue(Priority::RealTime, None).unwrap();
        let mut rt = Client::new(&device, queue, rt_blocks);
        let mut queue = device.queue(Priority::BestEffort, Some(&flag)).unwrap();
        queue.cap_blocks(self.width(&device));
        let mut be = Client::new(&device, queue, be_blocks);
        be.launch(self.be_kernels(), 0); // allocates for launches, which would wait while held
        be.wait();
        let software = hold_idle();
        be.launch(self.be_kernels(), ROUNDS);
        rt.launch(RT_KERNELS, ROUNDS);
        assert!(software.configure(&settings())); // the seed's order begins here
        software.hold(false);
        rt.finish();
        be.finish();
        assert_eq!(software.last_fault(), "");
        let trace = software.trace();
        let of = |client: &Client| {
            trace.iter().filter(|record| record.kernel == client.code).copied().collect()
        };
        Ran { rt: of(&rt), be: of(&be) }
    }
}

/// Runs a task whose kernels have `rt_blocks` blocks each and are padded with `pad` blocks each, of
/// one best-effort kernel of `be_blocks`, and then what is left of that. `None`, said aloud, where
/// AMD's runtime is not installed.
pub(crate) fn run_padded(rt_blocks: u32, pad: u32, be_blocks: u32) -> Option<Ran> {
    Sharing::Padded(pad).alone_with(|device| {
        let queue = |class| device.queue(class, None).unwrap();
        let mut be = Client::new(&device, queue(Priority::BestEffort), be_blocks);
        let mut rt = Client::new(&device, queue(Priority::RealTime), rt_blocks);
        let record = device.checkpoint(&be.kernel_launch(ROUNDS)).unwrap();
        be.code = be.guarded_code();
        // Places for the blocks of all kernels, because none ends while the device is held.
        let be_per_unit = RT_KERNELS as u32;
        let padding = Padding { rt_units: rt_blocks, be_per_unit, be_blocks: pad };
        // Opens and allocates for launches, which would wait while held: a list each, because a
        // record keeps its own until it is resumed, also if its blocks have ended.
        let first = be.kernel_launch(0);
        let records: Vec<_> = (0..RT_KERNELS).map(|_| device.checkpoint(&first).unwrap()).collect();
        records.iter().for_each(|record| rt.launch_padded(0, &padding, &first, record));
        rt.wait_for_padding();
        records.into_iter().for_each(|record| be.resume(&first, record));
        let software = hold_idle();
        let launch = be.kernel_launch(ROUNDS);
        for _ in 0..RT_KERNELS {
            rt.launch_padded(ROUNDS, &padding, &launch, &record);
        }
        assert!(software.configure(&settings())); // the seed's order begins here
        software.hold(false);
        rt.wait_for_padding();
        let trace = software.trace();
        be.resume(&launch, record);
        rt.finish();
        be.finish();
        assert_eq!(software.last_fault(), "");
        let of = |client: &Client| {
            trace.iter().filter(|record| record.kernel == client.code).copied().collect()
        };
        Ran { rt: of(&rt), be: of(&be) }
    })
}

/// A queue, its kernel, and the cells in which each block counts.
struct Client {
    device: Hip,
    queue: Queue,
    kernel: Kernel,
    cells: reef_hip::Buffer,
    blocks: u32,
    launched: u64,
    /// Address of its code: real-time and best-effort work run different builds.
    code: u64,
}

impl Client {
    /// Runs the kernel once, so that all is loaded and the trace tells the builds apart.
    fn new(device: &Hip, queue: Queue, blocks: u32) -> Self {
        let kernel = device.compile(SOURCE).unwrap().kernel("toil").unwrap();
        let cells = device.alloc(4 * blocks as usize).unwrap();
        let device = device.clone();
        let mut client = Self { device, queue, kernel, cells, blocks, launched: 0, code: 0 };
        software().forget_trace();
        client.launch(1, 0);
        client.wait();
        // Next to it run kernels of fewer blocks, which write words.
        let mut blocks = BTreeMap::<u64, usize>::new();
        software().trace().iter().for_each(|record| *blocks.entry(record.kernel).or_default() += 1);
        let own = blocks.into_iter().max_by_key(|(_, blocks)| *blocks);
        client.code = own.expect("it ran").0;
        client
    }

    /// The guarded build of its kernel, which runs once for that.
    fn guarded_code(&mut self) -> u64 {
        let plain = self.code;
        software().forget_trace();
        let launch = self.kernel_launch(0);
        let all = self.device.checkpoint(&launch).unwrap();
        self.resume(&launch, all);
        let trace = software().trace();
        let own = trace.iter().find(|ran| ran.groups[0] == self.blocks && ran.kernel != plain);
        own.expect("it ran").kernel
    }

    fn kernel_launch(&self, rounds: u64) -> Launch<Hip> {
        let args = Args::new(&[self.cells.address(), rounds]);
        // SAFETY: the kernel's parameters; there is a cell for each block.
        unsafe { Launch::new(self.kernel.clone(), [self.blocks, 1, 1], [THREADS, 1, 1], args) }
    }

    fn launch_padded(
        &mut self,
        rounds: u64,
        padding: &Padding,
        be: &Launch<Hip>,
        record: &Checkpoint,
    ) {
        let launch = self.kernel_launch(rounds);
        self.queue.launch_padded(Seq(self.launched), &launch, padding, be, record).unwrap();
        self.launched += 1;
    }

    /// Runs what is left of a launch of its kernel.
    fn resume(&mut self, launch: &Launch<Hip>, left: Checkpoint) {
        self.queue.launch(Seq(self.launched), launch, Some(&left)).unwrap();
        self.launched += 1;
        self.wait();
    }

    fn wait_for_padding(&mut self) {
        while self.queue.padding_ended().unwrap() < Seq(self.launched) {
            std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
        }
    }

    fn launch(&mut self, count: u64, rounds: u64) {
        let launch = self.kernel_launch(rounds);
        for _ in 0..count {
            self.queue.launch(Seq(self.launched), &launch, None).unwrap();
            self.launched += 1;
        }
        self.queue.completed().unwrap(); // puts a mark behind them
    }

    fn wait(&mut self) {
        while self.queue.completed().unwrap() < Seq(self.launched) {
            std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
        }
    }

    /// Waits, and checks that each block has run as often as it was launched.
    fn finish(&mut self) {
        self.wait();
        let mut cells = vec![0; 4 * self.blocks as usize];
        self.device.read(&self.cells, 0, &mut cells).unwrap();
        let counts = cells.chunks_exact(4).map(|cell| u32::from_le_bytes(cell.try_into().unwrap()));
        assert!(counts.clone().all(|count| u64::from(count) == self.launched), "each block once");
    }
}

/// One thread runs everything, in an order that the seed decides.
fn settings() -> Settings {
    let seed = std::env::var("REEF_GFX906_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    Settings { units: UNITS, workers: 0, seed, slice: 64, ..Settings::default() }
}

/// The software device, in the place of the library that talks to the kernel driver, before AMD's
/// runtime is loaded.
fn software() -> &'static Software {
    static SOFTWARE: OnceLock<Software> = OnceLock::new();
    SOFTWARE.get_or_init(|| {
        println!("REEF_GFX906_SEED={}", settings().seed);
        let software = Software::load().expect("cargo builds the library before its tests");
        assert!(software.configure(&settings()));
        software
    })
}

/// Holds the software device with nothing on its units. A mark is seen before its block has
/// ended, and what is left of that would have the first turns of the seed's order.
fn hold_idle() -> &'static Software {
    let software = software();
    software.hold(true);
    while software.counters().resident > 0 {
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
    software.forget_trace();
    software
}
