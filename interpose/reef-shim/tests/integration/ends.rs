//! Streams and contexts that end, on the fake driver under the shim: what ends takes nothing else
//! along, and what it had on the device counts until it has run. Each test is a program in a
//! process of its own.

mod captures;
mod contexts;
mod errors;

use crate::common::{self, Driver, FAKE, SHIM, SOON, UUID, call, library, until};
use reef_guest::join::{JoinRequest, Joined, join};
use reef_guest::page::Class;
use reef_guest::registry::{Registry, Rules};
use std::process::Command;
use std::time::Duration;

/// Says which test this process runs.
const ALONE: &str = "REEF_TEST_ALONE";
/// A kernel's length, and how many are launched where work has to be under way for a while.
const LENGTH: Duration = Duration::from_millis(2);
const MANY: u64 = 60;
/// Words of a process whose threads stood still for so long that it has not seen its subject: it is
/// started again.
const TOO_LATE: &str = "too late on a busy machine";

/// Program as a guest of its own daemon, next to a best-effort guest.
struct Program {
    driver: Driver,
    registry: Registry,
    other: Joined,
    mix: usize,
    memory: usize,
}

/// Runs a test in a process of its own, as a guest of this class, on a driver whose streams have
/// numbers or not.
fn run_alone(test: &str, class: &str, ids: &str, run: impl FnOnce(Program)) {
    if std::env::var(ALONE).is_ok_and(|which| which == format!("{test} {ids}")) {
        return run(Program::start(class));
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("ends::{test}");
    command.args(["--exact", &name, "--nocapture"]).env(ALONE, format!("{test} {ids}"));
    command.env("REEF_CLASS", class).env("REEF_FAKE_IDS", ids).env("REEF_FAKE_DEVICES", "2");
    command.env("REEF_FAKE_KERNEL_NS", LENGTH.as_nanos().to_string());
    command.env("REEF_FAKE_BYTES", (64_u64 << 30).to_string()); // contexts take some of it
    command.env("REEF_CUDA", library(FAKE));
    for _ in 0..20 {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() && said.contains(TOO_LATE) {
            continue;
        }
        assert!(output.status.success(), "numbers {ids}: {said}");
        let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
        return assert!(ran, "no test {name}");
    }
    panic!("{name}: too late in each of twenty processes");
}

/// Runs a test alone on both kinds of drivers.
fn run_on_both(test: &str, class: &str, run: impl Fn(Program)) {
    ["1", "0"].into_iter().for_each(|ids| {
        let is_other = std::env::var(ALONE).is_ok_and(|which| !which.ends_with(ids));
        if !is_other {
            run_alone(test, class, ids, &run);
        }
    });
}

impl Program {
    fn start(class: &str) -> Self {
        let path = std::env::temp_dir().join(format!("reef-ends-{}", std::process::id()));
        // No guest is released after a timeout: each end has to be seen.
        let rules = Rules { hold_timeout: 2 * SOON, ..Rules::default() };
        let policy = Box::new(|_: &_, wish: &JoinRequest| Ok(wish.class));
        let registry = Registry::open_with(&path, rules, policy).unwrap();
        // SAFETY: this test is alone in its process.
        unsafe { std::env::set_var("REEF_GUESTS", &path) };
        let driver = Driver::open(&library(SHIM));
        assert_eq!(call!(driver, cuInit(0)), 0);
        let wish = JoinRequest { class: Class::BestEffort, device: UUID };
        let other = join(&path, &wish, SOON).unwrap();
        println!("{class} at {}", path.display());
        Self { driver, registry, other, mix: 0, memory: 0 }
    }

    /// Makes a device's primary context current.
    fn use_device(&self, device: usize) -> usize {
        let (driver, mut context) = (self.driver, 0_usize);
        assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, device)), 0);
        assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
        context
    }

    /// A context of the program's own, which is current.
    fn context(&self) -> usize {
        let (driver, mut context) = (self.driver, 0_usize);
        assert_eq!(call!(driver, cuCtxCreate_v2(&raw mut context, 0, 0)), 0);
        context
    }

    fn stream(&self) -> usize {
        let (driver, mut stream) = (self.driver, 0_usize);
        assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
        stream
    }

    /// Creates memory and a kernel in a context, and joins.
    fn with_work(mut self) -> Self {
        let work = self.driver.work(64);
        (self.mix, self.memory) = (work.mix, work.memory);
        until("it has joined", || {
            self.launch(work.stream, 1); // it passes a daemon that is late
            assert_eq!(call!(self.driver, cuStreamSynchronize(work.stream)), 0);
            self.registry.guests().iter().any(|guest| guest.kernels > 0)
        });
        until("released", || !self.is_held());
        self
    }

    /// Expects this of a program that is held. A starvation relief opens its gates where a thread
    /// of this process stands still for a second.
    fn expect_held(&self, is_so: bool, what: &str) {
        let guests = self.registry.guests();
        let is_relieved = guests.iter().any(|guest| guest.starvation_reliefs > 0);
        assert!(is_so || !is_relieved, "{TOO_LATE}: {what}");
        assert!(is_so, "{what}");
    }

    fn launch(&self, stream: usize, count: u64) {
        for value in 0..count {
            let code = self.driver.launch("cuLaunchKernel", self.mix, stream, self.memory, value);
            assert_eq!(code, 0, "launch {value} of {count}");
        }
    }

    /// Returns whether what was recorded has run.
    fn has_run(&self, event: usize) -> bool {
        call!(self.driver, cuEventQuery(event)) == 0
    }

    /// An event behind a stream's work.
    fn event(&self, stream: usize) -> usize {
        let (driver, mut event) = (self.driver, 0_usize);
        assert_eq!(call!(driver, cuEventCreate(&raw mut event, 0)), 0);
        assert_eq!(call!(driver, cuEventRecord(event, stream)), 0);
        event
    }

    fn is_held(&self) -> bool {
        self.other.page.holders.is_closed()
    }

    /// The other guest is held until this event's work has run, and then no longer.
    fn holds_until(&self, event: usize) {
        let mut polls = 0;
        until("held", || self.is_held() || self.has_run(event));
        loop {
            let was_held = self.is_held();
            if self.has_run(event) {
                break;
            }
            assert!(was_held, "released while work is under way, at poll {polls}");
            polls += 1;
            std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
        }
        assert!(polls > 0, "{TOO_LATE}: the work had ended before it could be looked at");
        until("released", || !self.is_held());
    }

    /// No call of the library named what had ended.
    fn misuses(&self) -> u64 {
        let (fake, mut misuses) = (Driver::open(&library(FAKE)), 0_u64);
        assert_eq!(call!(fake, reef_fake_misuses(&raw mut misuses)), 0);
        misuses
    }
}

#[test]
fn destroyed_streams_count_until_their_work_has_run() {
    run_on_both("destroyed_streams_count_until_their_work_has_run", "rt", |program| {
        program.use_device(0);
        let program = program.with_work();
        for _ in 0..3 {
            let stream = program.stream();
            program.launch(stream, MANY);
            let event = program.event(stream);
            assert_eq!(call!(program.driver, cuStreamDestroy_v2(stream)), 0);
            // Its handle comes back, and the new stream has less to do.
            let next = program.stream();
            assert_eq!(next, stream, "the fake gives handles again");
            program.launch(next, 1);
            program.holds_until(event);
            assert_eq!(call!(program.driver, cuStreamDestroy_v2(next)), 0);
        }
        assert_eq!(program.misuses(), 0);
    });
}

#[test]
fn thousands_of_streams_hold_as_few_do() {
    run_alone("thousands_of_streams_hold_as_few_do", "rt", "1", |program| {
        program.use_device(0);
        let program = program.with_work();
        let streams: Vec<_> = (0..4500).map(|_| program.stream()).collect();
        for &stream in &streams {
            program.launch(stream, 1);
            assert_eq!(call!(program.driver, cuStreamSynchronize(stream)), 0);
        }
        until("released", || !program.is_held());
        for stream in streams.into_iter().step_by(450) {
            program.launch(stream, MANY / 2);
            program.holds_until(program.event(stream));
        }
    });
}
