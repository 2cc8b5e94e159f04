//! Test subjects: cells on a device, the kernel that appends to them, and their expected values.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
pub(crate) use reef_core::appended;
use reef_core::{
    Colocation, Command, Device, Dispatcher, Launch, PreemptLevel, Priority, Stopwatch, Submitter,
};
use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Preemptions per level and test.
pub(crate) fn cycles() -> u64 {
    std::env::var("REEF_CONFORMANCE_CYCLES").map_or(1000, |n| n.parse().expect("a number"))
}

/// A generator whose seed is printed.
pub(crate) fn rng() -> ChaCha8Rng {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = std::env::var("REEF_CONFORMANCE_SEED").map_or(now, |n| n.parse().expect("a number"));
    println!("REEF_CONFORMANCE_SEED={seed}");
    ChaCha8Rng::seed_from_u64(seed)
}

/// Checks that the event of a case has happened at least `want` times: the case proves nothing
/// otherwise.
#[track_caller]
pub(crate) fn happened(what: &str, have: u64, want: u64) {
    println!("{have} {what}, must be at least {want}");
    assert!(have >= want, "{have} {what}, must be at least {want}");
}

/// Times that a case waits for its event after all its rounds: if it has happened once, and if it
/// hasn't.
#[derive(Debug, Clone, Copy)]
struct EventTimeouts {
    some: Duration,
    none: Duration,
}

/// For a busy machine.
const LONG_TIMEOUTS: EventTimeouts =
    EventTimeouts { some: Duration::from_secs(90), none: Duration::from_secs(60) };
/// For devices on which it can't happen.
const SHORT_TIMEOUTS: EventTimeouts =
    EventTimeouts { some: Duration::from_secs(20), none: Duration::from_secs(6) };

thread_local! {
    static TIMEOUTS: Cell<EventTimeouts> = const { Cell::new(LONG_TIMEOUTS) };
}

/// Makes cases on this thread wait only for a short time for their event: for broken devices, which
/// are to fail.
#[doc(hidden)]
pub fn use_short_timeouts() {
    TIMEOUTS.set(SHORT_TIMEOUTS);
}

/// Returns the time for which a case waits for its event while it hasn't happened: for what a right
/// device does, however busy the machine is.
pub(crate) fn event_timeout() -> Duration {
    TIMEOUTS.get().none
}

/// Checks that as many real-time tasks have ended. The pass in which the last did may be another
/// thread's, which counts it afterwards.
#[track_caller]
pub(crate) fn expect_finished<D: Device>(dispatcher: &Dispatcher<D>, want: u64) {
    let start = Instant::now();
    while dispatcher.stats().rt_finished < want && start.elapsed() < event_timeout() {
        std::thread::yield_now();
    }
    assert_eq!(dispatcher.stats().rt_finished, want);
}

/// Counter of the rounds of a case: a minimum, and more until the event of the case has happened
/// often enough.
pub(crate) struct Rounds {
    left: u64,
    late: Option<Instant>,
}

impl Rounds {
    pub(crate) fn new(min_rounds: u64) -> Self {
        Self { left: min_rounds.max(1), late: None }
    }

    /// Returns whether there is another round: the event of the case has happened `have` times, and
    /// should `want` times.
    pub(crate) fn next(&mut self, have: u64, want: u64) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return true;
        }
        let EventTimeouts { some, none } = TIMEOUTS.get();
        let grace = if have == 0 { none } else { some };
        have < want && self.late.get_or_insert_with(Instant::now).elapsed() < grace
    }
}

/// Much longer than a search for a kernel of 2 ms takes on a busy machine.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(120);

/// Rounds of `append` for which one block takes about `time`.
pub(crate) fn rounds_for<D: Device>(device: &D, time: Duration) -> u64 {
    const MEASURED: Duration = Duration::from_millis(2);
    let cells = Cells::new(device, 1);
    let queue = device.queue(Priority::BestEffort, None).unwrap();
    let mut watch = Stopwatch::new(device, queue).unwrap();
    let (mut rounds, start) = (16_u64, Instant::now());
    watch.time([&cells.launch(0, rounds)]).unwrap(); // loads the kernel
    let mut measure = |rounds| watch.time([&cells.launch(0, rounds)]).unwrap();
    loop {
        // The shortest of three: others may have the processor meanwhile.
        let took = measure(rounds);
        let took =
            if took < MEASURED { took } else { took.min(measure(rounds)).min(measure(rounds)) };
        let waited = start.elapsed();
        assert!(
            waited < MEASURE_TIMEOUT,
            "{rounds} rounds take {took:?} by its clock, after {waited:?}"
        );
        if took >= MEASURED {
            return (time.as_nanos() * u128::from(rounds) / took.as_nanos()).max(1) as u64;
        }
        rounds *= 2;
    }
}

/// Returns whether evicted work stays with the device, which holds it back, for example at a gate.
pub(crate) fn holds_evicted<D: Device>(device: &D, level: PreemptLevel) -> bool {
    let deepest = device.info().level == PreemptLevel::DeviceQueue;
    deepest && level == PreemptLevel::DeviceQueue && device.colocation() == Colocation::Never
}

/// Counter of the effects that preemptions at a level must have on work that they meet. Commands
/// are launched again, or, where they stay launched, commands that have not finished wait.
pub(crate) struct Effects {
    launches: bool,
    held: u64,
}

impl Effects {
    pub(crate) fn new<D: Device>(device: &D, level: PreemptLevel) -> Self {
        let launches = level > PreemptLevel::HostQueue && !holds_evicted(device, level);
        Self { launches, held: 0 }
    }

    /// Call while the queue is held.
    pub(crate) fn observe<D: Device>(&mut self, submitter: &Submitter<D>) {
        self.held += u64::from(submitter.completed() < submitter.submitted());
    }

    /// Returns the number of effects; `rerun` is the number of commands that the queues launched
    /// again.
    pub(crate) fn times(&self, rerun: u64) -> u64 {
        if self.launches { rerun } else { self.held }
    }

    pub(crate) fn name(&self) -> &'static str {
        if self.launches { "commands were launched again" } else { "preemptions met work" }
    }
}

/// Sleeps for less than `micros`.
pub(crate) fn doze(rng: &mut impl Rng, micros: u64) {
    // sleep: any length is right
    std::thread::sleep(Duration::from_micros(rng.random_range(0..micros)));
}

/// Cells on a device; an error ends the test.
pub(crate) struct Cells<D: Device>(reef_core::Cells<D>, u32);

impl<D: Device> Cells<D> {
    pub(crate) fn new(device: &D, len: u32) -> Self {
        Self(reef_core::Cells::new(device, len).unwrap(), len)
    }

    pub(crate) fn buffer(&self) -> &D::Buffer {
        self.0.buffer()
    }

    /// Appends `value` to each cell, after a number of rounds of waiting.
    pub(crate) fn launch(&self, value: u64, rounds: u64) -> Launch<D> {
        self.0.launch(value, rounds)
    }

    pub(crate) fn append(&self, value: u64, rounds: u64) -> Command<D> {
        self.0.append(value, rounds)
    }

    pub(crate) fn read(&self) -> Vec<u64> {
        self.0.read().unwrap()
    }

    /// Checks that each cell holds `values`, appended one after the other.
    #[track_caller]
    pub(crate) fn expect(&self, values: impl IntoIterator<Item = u64>) {
        assert_eq!(self.read(), vec![appended(values); self.1 as usize]);
    }
}

/// The first `len` cells of a buffer.
pub(crate) fn read<D: Device>(device: &D, buffer: &D::Buffer, len: usize) -> Vec<u64> {
    let mut bytes = vec![0; len * 8];
    device.read(buffer, 0, &mut bytes).unwrap();
    bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
}
