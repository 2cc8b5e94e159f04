//! Each block takes effect exactly once, in order, for any time of preemption.

use crate::run::skip;
use crate::subject::{
    Cells, Effects, Rounds, appended, cycles, doze, happened, holds_evicted, rng, rounds_for,
};
use rand::RngExt;
use reef_core::{Command, Config, Device, Error, Group, PreemptLevel, Submitter, VirtualQueue};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Polls for what a device takes to stop what a case has launched: half a minute of them, and more
/// time where this thread has no processor, when the threads of the device may not have one either.
const QUIESCE_POLLS: u32 = 300_000;

fn config(level: PreemptLevel, rng: &mut impl rand::Rng) -> Config {
    Config::default().level(level).window(rng.random_range(1..6))
}

/// Length of the kernels that a preemption is sure to meet: one of them in eight preemptions.
const LONG_KERNEL: Duration = Duration::from_micros(500);

pub fn each_block_runs_once_in_order<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let long = rounds_for(device, LONG_KERNEL);
    let (wanted, mut times) = (cycles() / 20, 0);
    let mut rounds = Rounds::new(cycles().div_ceil(100));
    while rounds.next(times, wanted) {
        times += preempted_often(device, level, long, &mut rng);
    }
    happened(Effects::new(device, level).name(), times, wanted);
}

/// Preempts one queue a hundred times; returns how often that met work.
fn preempted_often<D: Device>(
    device: &D,
    level: PreemptLevel,
    long: u64,
    rng: &mut impl rand::Rng,
) -> u64 {
    let cells = Cells::new(device, rng.random_range(1..12));
    let config = config(level, rng);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    let (mut values, mut effects) = (Vec::new(), Effects::new(device, level));
    for _ in 0..cycles().min(100) {
        for _ in 0..rng.random_range(0..8) {
            let value = rng.random_range(1..100);
            submitter.submit_blocking(cells.append(value, rng.random_range(0..60))).unwrap();
            values.push(value);
        }
        if rng.random_ratio(1, 8) {
            submitter.submit_blocking(cells.append(7, long)).unwrap();
            values.push(7);
        }
        doze(rng, 150);
        queue.preempt(rng.random()).unwrap();
        effects.observe(&submitter);
        if rng.random_ratio(1, 4) {
            let value = rng.random_range(1..100);
            submitter.submit(cells.append(value, 0)).expect("room while preempted");
            values.push(value);
        }
        doze(rng, 50);
        queue.restore().unwrap();
    }
    let times = effects.times(queue.rerun());
    queue.finish().unwrap();
    cells.expect(values);
    times
}

/// Time of each of the commands that [`a_preemption_is_as_deep_as_its_level`] stops.
const COMMAND_TIME: Duration = Duration::from_millis(200);

/// Each level stops its commands, however long those would have taken: at first commands that are
/// not launched; then launched ones; then the blocks that run.
pub fn a_preemption_is_as_deep_as_its_level<D: Device>(device: &D, level: PreemptLevel) {
    let max_finished = match level {
        PreemptLevel::HostQueue => 3,
        // A batch may wait at one gate.
        PreemptLevel::DeviceQueue if holds_evicted(device, level) => 3,
        PreemptLevel::DeviceQueue => 1,
        PreemptLevel::All => 0,
    };
    let (mut rounds, mut delay) =
        (rounds_for(device, COMMAND_TIME), COMMAND_TIME + COMMAND_TIME / 4);
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        let stop = stop_in_the_first_of_four(device, level, rounds, delay);
        println!("{stop}, level {level}");
        longest = longest.max(stop.each);
        match stop.each {
            // They were measured while others had the processor.
            each if each < COMMAND_TIME * 3 / 4 => {
                rounds = 1 + (1.5 * rounds as f64 * COMMAND_TIME.div_duration_f64(each)) as u64;
                continue;
            }
            _ if stop.is_late => continue,
            _ => assert!(stop.finished <= max_finished, "level {level}: {stop}"),
        }
        if stop.each <= delay {
            return;
        }
        // Others have it now: what goes on takes longer until it shows.
        delay = stop.each + stop.each / 4;
    }
    assert!(
        longest >= COMMAND_TIME * 3 / 4,
        "commands of {rounds} rounds are shorter than {COMMAND_TIME:?}"
    );
}

/// Stops a queue of four commands a quarter of a command after its beginning, checks for the time
/// `delay` whether something goes on, and lets it.
fn stop_in_the_first_of_four<D: Device>(
    device: &D,
    level: PreemptLevel,
    rounds: u64,
    delay: Duration,
) -> Stop {
    let cells = Cells::new(device, 1);
    // A command may take any time: others have the processor.
    let config = Config::default().level(level).window(3).drain_timeout(None);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    let begin = Instant::now();
    (1..=4).for_each(|value| submitter.submit(cells.append(value, rounds)).map(drop).unwrap());
    // sleep: into the first command; the check takes part in what each took
    std::thread::sleep(COMMAND_TIME / 4);
    let mut stop = Stop::of(&submitter, &queue, &cells);
    let before = begin.elapsed();
    let frozen = cells.read();
    std::thread::sleep(delay); // sleep: longer than a command takes, as is measured afterwards
    assert_eq!(cells.read(), frozen, "level {level}: what was stopped goes on");
    cells.expect(1..=stop.finished);
    let begin = Instant::now();
    queue.restore().unwrap();
    queue.finish().unwrap();
    cells.expect(1..=4);
    stop.each = (before + begin.elapsed()) / 4;
    stop
}

/// Observation of a preemption. For one that came too late it shows the place: the calls that stop
/// a device may have waited, for example for a lock of the driver, or the device may have received
/// them late, for example after other work.
struct Stop {
    /// Until the calls that stop the device returned, and commands that had finished then.
    called: Duration,
    done: u64,
    /// Until the device confirmed that nothing runs, and commands that had finished then.
    quiesced: Duration,
    finished: u64,
    /// Of the time in which the queue could run, a command's part: at least what one takes.
    each: Duration,
    /// The first command had taken effect when the calls returned, so maybe before the stop: this
    /// thread had no processor.
    is_late: bool,
}

impl Stop {
    fn of<D: Device>(submitter: &Submitter<D>, queue: &VirtualQueue<D>, cells: &Cells<D>) -> Self {
        let start = Instant::now();
        queue.preempt(false).unwrap();
        let (called, done) = (start.elapsed(), submitter.completed().0);
        let is_late = cells.read() != [0];
        let mut polls = 0;
        while !queue.group().is_quiesced() {
            polls += 1;
            assert!(polls < QUIESCE_POLLS, "not quiesced within {:?}", start.elapsed());
            std::thread::sleep(Duration::from_micros(50)); // sleep: poll of a condition
        }
        let (quiesced, finished) = (start.elapsed(), submitter.completed().0);
        Self { called, done, quiesced, finished, each: Duration::ZERO, is_late }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { called, done, quiesced, finished, each, is_late: _ } = self;
        write!(
            f,
            "of four commands of {each:?} {finished} finished, {done} when the calls to stop returned after {called:?}, \
             quiesced after {quiesced:?}"
        )
    }
}

pub fn nothing_runs_while_a_queue_is_held<D: Device>(device: &D, level: PreemptLevel) {
    if holds_evicted(device, level) {
        skip("gates open when a call of the driver hangs, as those of other tests may");
        return;
    }
    let mut rng = rng();
    let spin = rounds_for(device, Duration::from_micros(100));
    let cells = Cells::new(device, 8);
    let (mut submitter, queue) = VirtualQueue::enable(device, config(level, &mut rng)).unwrap();
    let (mut submitted, mut held, wanted) = (0, 0, cycles() / 40);
    let mut rounds = Rounds::new(cycles() / 20);
    while rounds.next(held, wanted) {
        for _ in 0..10 {
            submitter.submit_blocking(cells.append(submitted, spin)).unwrap();
            submitted += 1;
        }
        doze(&mut rng, 400);
        queue.preempt(true).unwrap();
        let frozen = cells.read();
        held += u64::from(submitter.completed().0 < submitted);
        // sleep: time in which a fault would show; none fails a right device
        std::thread::sleep(Duration::from_micros(300));
        assert_eq!(frozen, cells.read(), "level {level}");
        queue.restore().unwrap();
    }
    queue.finish().unwrap();
    cells.expect(0..submitted);
    happened("queues were held with work", held, wanted);
}

pub fn a_group_is_preempted_by_one_flag<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let group = Group::open(device, level).unwrap();
    let spin = rounds_for(device, Duration::from_micros(100));
    let cells: Vec<_> = (0..4).map(|_| Cells::new(device, 4)).collect();
    let mut queues: Vec<_> =
        (0..4).map(|_| group.enable(config(level, &mut rng)).unwrap()).collect();
    let rerun = |queues: &[(_, VirtualQueue<D>)]| queues.iter().map(|(_, q)| q.rerun()).sum();
    let (mut turn, mut effects, wanted) = (0, Effects::new(device, level), cycles() / 40);
    let mut rounds = Rounds::new(cycles() / 10);
    while rounds.next(effects.times(rerun(&queues)), wanted) {
        for ((submitter, _), cells) in queues.iter_mut().zip(&cells) {
            submitter.submit_blocking(cells.append(turn, spin)).unwrap();
        }
        turn += 1;
        doze(&mut rng, 100);
        group.preempt(rng.random()).unwrap();
        queues.iter().for_each(|(submitter, _)| effects.observe(submitter));
        doze(&mut rng, 30);
        group.restore().unwrap();
    }
    happened(effects.name(), effects.times(rerun(&queues)), wanted);
    for ((_, queue), cells) in queues.into_iter().zip(&cells) {
        queue.finish().unwrap();
        cells.expect(0..turn);
    }
}

/// A queue that joins a preempted group waits like the others.
pub fn a_newcomer_of_a_held_group_is_held<D: Device>(device: &D, level: PreemptLevel) {
    // Gates open when a call of the driver hangs, and on a busy machine one seems to whose thread
    // has to wait for a processor.
    let times = if holds_evicted(device, level) { 20 } else { 1 };
    assert!((0..times).any(|_| newcomer_is_held(device, level)), "level {level}");
}

fn newcomer_is_held<D: Device>(device: &D, level: PreemptLevel) -> bool {
    let group = Group::open(device, level).unwrap();
    group.preempt(true).unwrap();
    let config = Config::default().level(level);
    let (mut submitter, queue) = group.enable(config).unwrap();
    let cells = Cells::new(device, 3);
    submitter.submit(cells.append(7, 0)).unwrap();
    // sleep: time in which a fault would show; none fails a right device
    std::thread::sleep(Duration::from_millis(2));
    let held = cells.read() == [0; 3];
    group.restore().unwrap();
    queue.finish().unwrap();
    cells.expect([7]);
    held
}

/// Dropping cancels: what is left is the effect of the first commands, and of some blocks of the
/// next one if it was stopped in its middle.
pub fn a_dropped_queue_leaves_a_prefix<D: Device>(device: &D, level: PreemptLevel) {
    let mut rng = rng();
    let spin = rounds_for(device, Duration::from_micros(100));
    let (mut cut, wanted) = (0, cycles() / 40);
    let mut rounds = Rounds::new(cycles() / 10);
    while rounds.next(cut, wanted) {
        let cells = Cells::new(device, 6);
        let (mut submitter, queue) = VirtualQueue::enable(device, config(level, &mut rng)).unwrap();
        for value in 0..20 {
            submitter.submit_blocking(cells.append(value, rng.random_range(0..spin))).unwrap();
        }
        doze(&mut rng, 300);
        if rng.random() {
            queue.preempt(rng.random()).unwrap();
        }
        drop(queue);
        let prefixes: Vec<u64> = (0..=20).map(|n| appended(0..n)).collect();
        let done = |cell: &u64| prefixes.iter().rposition(|prefix| prefix == cell);
        let done: Vec<_> = cells.read().iter().map(|c| done(c).expect("a prefix")).collect();
        let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
        assert!(most - least <= 1, "level {level}: {done:?}");
        assert_eq!(submitter.wait(reef_core::Seq(19)).is_ok(), *least == 20);
        cut += u64::from(*least < 20);
    }
    happened("queues were dropped with work", cut, wanted);
}

pub fn wrong_states_are_errors<D: Device>(device: &D, level: PreemptLevel) {
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    assert!(matches!(queue.restore(), Err(Error::State { .. })), "restoring what runs");
    queue.preempt(true).unwrap();
    assert!(matches!(queue.preempt(true), Err(Error::State { .. })), "preempting twice");
    let cells = Cells::new(device, 2);
    submitter.submit(cells.append(1, 0)).unwrap();
    let (error, queue) = queue.disable().unwrap_err();
    assert!(matches!(error, Error::State { .. }), "disabling while preempted: {error}");
    queue.restore().unwrap();
    // Host code that ends only afterwards.
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap();
    let code = Command::Host(Arc::new({
        let gate = gate.clone();
        move || drop(gate.lock())
    }));
    let last = submitter.submit(code).unwrap();
    let disabled = queue.disable();
    drop(closed);
    let (error, queue) = disabled.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "disabling with work left: {error}");
    submitter.wait(last).unwrap();
    queue.disable().map_err(|(error, _)| error).unwrap();
    assert!(matches!(submitter.wait(reef_core::Seq(2)), Err(Error::Invalid(_))), "never submitted");

    let group = Group::open(device, level).unwrap();
    let (_a, first) = group.enable(config).unwrap();
    let (_b, _second) = group.enable(config).unwrap();
    assert!(matches!(first.preempt(true), Err(Error::State { .. })), "one of several");
}
