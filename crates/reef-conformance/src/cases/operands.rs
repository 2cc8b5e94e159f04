//! Operands of commands stay allocated until the commands have ended, also if their owner drops
//! them.

use crate::subject::{Cells, Effects, Rounds, cycles, doze, happened, read, rng};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use reef_core::{
    Command, Config, Copy, Device, Fill, PreemptLevel, Priority, Queue, Seq, VirtualQueue,
};

/// Cells of one buffer.
const LEN: u32 = 64;
const BYTES: usize = LEN as usize * 8;

/// A launch, a copy and a fill, each the only one to hold its buffers; the first keeps the others
/// waiting.
fn orphans<D: Device>(device: &D, rng: &mut ChaCha8Rng) -> [Command<D>; 3] {
    let buffer = || device.alloc(BYTES).unwrap();
    let (from, to) = (buffer(), buffer());
    device.write(&from, 0, &[0xee; BYTES]).unwrap();
    let copy = Copy { from, from_offset: 0, to, to_offset: 0, bytes: BYTES, to_host: false };
    let fill = Fill { buffer: buffer(), offset: 0, bytes: BYTES, word: 0xdddd_dddd };
    // About as long on any device, however many of the blocks it runs at a time.
    let rounds = 1000 * device.info().units.clamp(1, LEN) / LEN;
    let launch = Cells::new(device, LEN).append(7, rng.random_range(0..u64::from(rounds)));
    [launch, Command::Copy(copy), Command::Fill(fill)]
}

/// Memory that is handed out while commands run that were the last to hold theirs.
fn newcomers<D: Device>(device: &D) -> Vec<D::Buffer> {
    (0..4).map(|_| device.alloc(BYTES).unwrap()).collect()
}

#[track_caller]
fn expect_untouched<D: Device>(device: &D, buffers: &[D::Buffer]) {
    for buffer in buffers {
        let cells = read(device, buffer, LEN as usize);
        assert!(
            cells.iter().all(|cell| *cell == 0),
            "a command wrote memory of others: {cells:x?}"
        );
    }
}

/// Directly on a queue of the device: it keeps what it was given.
pub fn a_queue_keeps_what_it_launched<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let preemptor = device.preemptor(level).unwrap();
    let of_preemptor = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    for mut queue in [of_preemptor, device.queue(Priority::RealTime, None).unwrap()] {
        let mut next = 0;
        for _ in 0..(cycles() / 40).max(1) {
            for command in orphans(device, &mut rng) {
                match &command {
                    Command::Launch(launch) => queue.launch(Seq(next), launch, None).unwrap(),
                    Command::Copy(copy) => queue.copy(Seq(next), copy).unwrap(),
                    Command::Fill(fill) => queue.fill(Seq(next), fill).unwrap(),
                    other => unreachable!("{other:?}"),
                }
                next += 1;
            }
            queue.record(Seq(next), &device.event().unwrap()).unwrap();
            next += 1;
            let buffers = newcomers(device);
            while queue.completed().unwrap() < Seq(next) {
                std::thread::yield_now();
            }
            expect_untouched(device, &buffers);
        }
        // A queue that is dropped with work on it waits for that work.
        let [launch, ..] = orphans(device, &mut rng);
        if let Command::Launch(launch) = launch {
            queue.launch(Seq(next), &launch, None).unwrap();
        }
        drop(queue);
        expect_untouched(device, &newcomers(device));
    }
}

/// Through virtual queues that are preempted meanwhile, and dropped with work in them.
pub fn operands_may_be_dropped_at_once<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    // Not one for each queue: a preemption may come when all has ended, or before anything was
    // launched.
    let (wanted, mut times) = ((cycles() / 100).max(1), 0);
    let mut rounds = Rounds::new(wanted);
    while rounds.next(times, wanted) {
        times += preempted_with_orphans(device, level, &mut rng);
    }
    happened(Effects::new(device, level).name(), times, wanted);
}

/// Preempts one queue four times; returns how often that met work.
fn preempted_with_orphans<D: Device>(device: &D, level: PreemptLevel, rng: &mut ChaCha8Rng) -> u64 {
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config::default().level(level)).unwrap();
    let (mut buffers, mut effects) = (Vec::new(), Effects::new(device, level));
    let kept = Cells::new(device, 1);
    for value in 0..4 {
        for command in orphans(device, rng) {
            submitter.submit_blocking(command).unwrap();
        }
        submitter.submit_blocking(kept.append(value, 0)).unwrap();
        buffers.extend(newcomers(device));
        doze(rng, 40);
        queue.preempt(rng.random()).unwrap();
        doze(rng, 40);
        effects.observe(&submitter);
        queue.restore().unwrap();
    }
    let times = effects.times(queue.rerun());
    if rng.random() {
        queue.finish().unwrap();
        kept.expect(0..4);
    } else {
        drop(queue); // cancels what has not been launched
    }
    expect_untouched(device, &buffers);
    times
}
