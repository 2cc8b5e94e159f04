//! A task whose result shows each block that was lost, doubled or out of order, and ways to stop
//! any task at any block.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef_core::{
    Blocks, Cells, Command, Config, Copy, Device, Fill, Parked, PreemptLevel, Seq, VirtualQueue,
};
use reef_cpu::Cpu;
use reef_snapshot::{Digest, Region, Snapshot, Work, plan, write};
use serde_json::Value;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A generator whose seed is printed, and set by `REEF_TEST_SEED`.
pub(crate) fn rng() -> ChaCha8Rng {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = std::env::var("REEF_TEST_SEED").map_or(now, |n| n.parse().expect("a number"));
    println!("REEF_TEST_SEED={seed}");
    ChaCha8Rng::seed_from_u64(seed)
}

pub(crate) fn cpu(ordinal: usize, units: u32) -> Cpu {
    Cpu::open(ordinal, &format!("units={units}")).expect("the software device is always there")
}

/// Appends to cells, copies and fills: nothing of it may run twice.
pub(crate) struct Journal {
    pub(crate) device: Cpu,
    one: Cells<Cpu>,
    two: Cells<Cpu>,
    pad: <Cpu as reef_core::Backend>::Buffer,
    rounds: u64,
}

/// Bytes of the memory that is not cells: two chunks and a part of one.
const PAD: usize = (5 << 20) + 24;

impl Journal {
    pub(crate) fn new(device: &Cpu) -> Self {
        Self::slow(device, 0)
    }

    /// Each block of its kernels waits for some rounds.
    pub(crate) fn slow(device: &Cpu, rounds: u64) -> Self {
        let cells = |len| Cells::new(device, len).expect("memory");
        let pad = device.alloc(PAD).expect("memory");
        Self { device: device.clone(), one: cells(12), two: cells(5), pad, rounds }
    }

    fn task(&self) -> Vec<Command<Cpu>> {
        let copy = |from: &Cells<Cpu>, to: &Cells<Cpu>, to_offset| {
            let (from, to) = (from.buffer().clone(), to.buffer().clone());
            Command::Copy(Copy { from, from_offset: 0, to, to_offset, bytes: 16, to_host: false })
        };
        let fill = |offset, word| {
            Command::Fill(Fill { buffer: self.pad.clone(), offset, bytes: 64, word })
        };
        vec![
            self.one.append(3, self.rounds),
            fill(4 << 20, 5),
            self.two.append(1, self.rounds),
            copy(&self.one, &self.two, 8),
            self.one.append(7, self.rounds),
            self.two.append(4, self.rounds),
            copy(&self.two, &self.one, 64),
            self.one.append(2, self.rounds),
        ]
    }

    pub(crate) fn work(&self) -> Work<'_, Cpu> {
        let task = self.task();
        let cells = |name: &str, cells: &Cells<Cpu>, len: usize| Region {
            name: name.into(),
            buffer: cells.buffer().clone(),
            bytes: len * 8,
            lasts: true,
        };
        let pad = Region { name: "pad".into(), buffer: self.pad.clone(), bytes: PAD, lasts: true };
        Work {
            device: &self.device,
            name: "journal".into(),
            memory: vec![cells("one", &self.one, 12), cells("two", &self.two, 5), pad],
            model: Digest::of(b"journal"),
            weights: Digest::of(b"none"),
            plan: plan(&self.device, &task, [], ""),
            task: task.into(),
        }
    }
}

/// Contents of all memory of a task.
pub(crate) fn contents(work: &Work<'_, Cpu>) -> Vec<Vec<u8>> {
    let read = |region: &Region<Cpu>| {
        let mut bytes = vec![0; region.bytes];
        work.device.read(&region.buffer, 0, &mut bytes).expect("it is inside");
        bytes
    };
    work.memory.iter().map(read).collect()
}

/// Overwrites all memory of a task, so that nothing of it helps.
pub(crate) fn spoil(work: &Work<'_, Cpu>) {
    for region in &work.memory {
        work.device.write(&region.buffer, 0, &vec![0xab; region.bytes]).expect("it is inside");
    }
}

/// Runs `parked` to its end.
pub(crate) fn finish(work: &Work<'_, Cpu>, parked: Parked<Cpu>, level: PreemptLevel) {
    let config = Config::default().level(level);
    let (_, queue) = VirtualQueue::enable_parked(work.device, config, parked).expect("a queue");
    queue.finish().expect("it runs to its end");
}

/// Runs some commands, at the first of them these blocks alone.
fn run(work: &Work<'_, Cpu>, commands: &[Command<Cpu>], blocks: Option<Blocks>) {
    let parked = Parked::new(Seq(0), commands.to_vec(), blocks).expect("they can be parked");
    finish(work, parked, PreemptLevel::All);
}

/// Runs a queue of `tasks` tasks up to command `at`, and of that some random blocks. Returns the
/// queue as it is parked.
pub(crate) fn stopped_at(
    work: &Work<'_, Cpu>,
    tasks: usize,
    at: usize,
    level: PreemptLevel,
    rng: &mut impl Rng,
) -> Parked<Cpu> {
    let all: Vec<_> = (0..tasks).flat_map(|_| work.task.iter().cloned()).collect();
    let (done, left) = all.split_at(at);
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(work.device, config).expect("a queue");
    for command in done {
        submitter.submit_blocking(command.clone()).expect("it runs");
    }
    if at > 0 {
        submitter.wait(Seq(at as u64 - 1)).expect("it ends");
    }
    queue.preempt(true).expect("it runs");
    for command in left {
        submitter.submit(command.clone()).map_err(drop).expect("there is room");
    }
    let parked = queue.park(submitter).map_err(|(error, ..)| error).expect("it is parked");
    assert_eq!((parked.completed(), parked.commands().len()), (Seq(at as u64), left.len()));
    let Some(Command::Launch(launch)) = left.first() else { return parked };
    let total = launch.blocks();
    let (ran, not): (Vec<u32>, Vec<u32>) = (0..total).partition(|_| rng.random());
    let blocks = |indices| Blocks::of_indices(total, 0, indices).expect("each once");
    run(work, &left[..1], Some(blocks(ran)));
    Parked::new(Seq(at as u64), left.to_vec(), Some(blocks(not))).expect("they can be parked")
}

/// Writes a queue, and restores it for other memory.
pub(crate) fn through_a_file(
    folder: &Path,
    work: &Work<'_, Cpu>,
    parked: &Parked<Cpu>,
    other: &Work<'_, Cpu>,
) -> Parked<Cpu> {
    let written = write(folder, work, parked, Value::Null).expect("written");
    let mut snapshot = Snapshot::open(folder).expect("whole");
    assert_eq!(snapshot.position(), written.position);
    let restored = snapshot.restore(other).expect("the same task");
    assert_eq!(restored.completed(), parked.completed());
    assert_eq!(restored.partial(), parked.partial());
    assert_eq!(restored.commands().len(), parked.commands().len());
    restored
}
