//! Device time that greedy real-time clients leave to others: the reserve of best-effort work, and
//! the starts of a client that keeps within its budget. How large the reserve is, is a measurement.

use parking_lot::Mutex;
use reef::cpu::Cpu;
use reef::scheduler::{Reef, RtShare, Scheduler};
use reef::{
    Account, ClientConfig, Device, Dispatcher, Rate, RtClient, Task, Timing, testing::Cells,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Length of a greedy client's task.
const GREEDY_TASK_MS: u64 = 30;
/// Work in which shares are counted.
const WORK_MS: u64 = 2000;
/// Length of a best-effort client's task, of which it has two: more than it may be late.
const BACKLOG_MS: u64 = 100;
const RUN_TIME: Duration = Duration::from_millis(1500);

/// The tests measure, one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// A device of one unit with a dispatcher.
struct Bench {
    cells: Cells<Cpu>,
    dispatcher: Dispatcher<Cpu>,
    rounds_a_ms: u64,
    /// Milliseconds of work that greedy clients got done.
    greedy_ms: AtomicU64,
}

impl Bench {
    fn new(scheduler: Box<dyn Scheduler>) -> Self {
        let device = Cpu::open(0, "units=1").unwrap();
        let cells = Cells::new(&device, 1).unwrap();
        let dispatcher = Dispatcher::start(&device, scheduler).unwrap();
        let greedy_ms = AtomicU64::new(0);
        let mut bench = Self { cells, dispatcher, rounds_a_ms: 1000, greedy_ms };
        let timings: Vec<_> =
            (0..9).map(|_| bench.client().run(&bench.task(10)).unwrap()).collect();
        let took = timings.iter().map(|timing| timing.device).min().unwrap();
        bench.rounds_a_ms = (1000.0 * 10.0 / (took.as_secs_f64() * 1e3)) as u64;
        bench
    }

    fn shared(reserve: f64) -> Self {
        Self::new(Box::new(RtShare::new(Box::new(Reef::default()), reserve)))
    }

    /// A task that takes about this number of milliseconds, in kernels of one.
    fn task(&self, ms: u64) -> Task<Cpu> {
        let kernels: Vec<_> = (0..ms).map(|_| self.cells.append(1, self.rounds_a_ms)).collect();
        Task::new(kernels).unwrap()
    }

    fn client(&self) -> RtClient<Cpu> {
        self.dispatcher.real_time().unwrap()
    }

    /// Keeps two tasks with the dispatcher until the end: what became of them.
    fn greedy(&self, end: &AtomicBool) -> Vec<Timing> {
        let (mut client, task) = (self.client(), self.task(GREEDY_TASK_MS));
        let (mut timings, mut open) = (Vec::new(), client.submit(&task).unwrap());
        while !end.load(Ordering::Relaxed) {
            let next = client.submit(&task).unwrap();
            timings.push(std::mem::replace(&mut open, next).wait().unwrap());
            self.greedy_ms.fetch_add(GREEDY_TASK_MS, Ordering::Relaxed);
        }
        timings.push(open.wait().unwrap());
        timings
    }

    /// The share of a best-effort client that always has something to do, in kernels of a
    /// millisecond: other programs on the machine slow everybody down.
    fn best_effort_share(&self) -> f64 {
        let mut client = self.dispatcher.best_effort(ClientConfig::default()).unwrap();
        let before = self.greedy_ms.load(Ordering::Relaxed);
        let (begin, task) = (Instant::now(), self.task(BACKLOG_MS));
        let mut last = client.submit(task.commands()).unwrap();
        loop {
            let next = client.submit(task.commands()).unwrap();
            client.wait(last).unwrap();
            last = next;
            let done = client.submitter().completed().0;
            let all = done + self.greedy_ms.load(Ordering::Relaxed) - before;
            if all >= WORK_MS {
                return done as f64 / all as f64;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{all} of {WORK_MS} ms are done");
        }
    }

    /// Runs this number of best-effort kernels of a millisecond.
    fn run_best_effort(&self, kernels: u64) {
        let mut client = self.dispatcher.best_effort(ClientConfig::default()).unwrap();
        let last = client.submit(self.task(kernels).commands()).unwrap();
        assert!(
            client.wait_timeout(last, Duration::from_secs(120)) == Some(Ok(())),
            "no part was left"
        );
    }

    /// Returns the timings of a client that asks for a millisecond every 40. Its budget is longer
    /// than a machine that is busy with other programs keeps all of them.
    fn paced(&self) -> Vec<Timing> {
        let ms = Duration::from_millis;
        let (mut client, task) = (self.client(), self.task(1));
        let rate = Rate::new(Duration::from_secs(40), Duration::from_secs(36)).unwrap();
        client.charge(&Account::new(Some(rate)));
        let begin = Instant::now();
        let run = |n| {
            // sleep: pace of the requests
            thread::sleep((begin + ms(40) * n).saturating_duration_since(Instant::now()));
            client.run(&task).unwrap()
        };
        (0..RUN_TIME.as_millis() as u32 / 40).map(run).collect()
    }

    /// Runs `f` next to this number of greedy clients: returns its result, and the timings of their
    /// tasks.
    fn with_greedy<R>(&self, greedy: usize, f: impl FnOnce() -> R) -> (R, Vec<Timing>) {
        let (end, before) = (AtomicBool::new(false), self.greedy_ms.load(Ordering::Relaxed));
        thread::scope(|scope| {
            let all: Vec<_> = (0..greedy).map(|_| scope.spawn(|| self.greedy(&end))).collect();
            while self.greedy_ms.load(Ordering::Relaxed) < before + GREEDY_TASK_MS * greedy as u64 {
                thread::yield_now();
            }
            let result = f();
            end.store(true, Ordering::Relaxed);
            (result, all.into_iter().flat_map(|one| one.join().unwrap()).collect())
        })
    }
}

/// Returns the number of `others` that ran while a task waited for its start.
fn overtaken_by(task: &Timing, others: &[Timing]) -> usize {
    let start = |timing: &Timing| timing.submitted + timing.delay;
    let end = |timing: &Timing| timing.submitted + timing.total;
    others.iter().filter(|one| end(one) > task.submitted && start(one) < start(task)).count()
}

#[test]
fn best_effort_work_goes_on_next_to_a_greedy_client() {
    let _alone = ALONE.lock();
    let bench = Bench::shared(0.3);
    let (_, greedy) = bench.with_greedy(1, || bench.run_best_effort(2 * BACKLOG_MS));
    assert!(greedy.len() > 1, "the greedy client went on as well");
}

#[test]
#[ignore = "measures"]
fn best_effort_work_keeps_its_reserve_next_to_a_greedy_client() {
    let _alone = ALONE.lock();
    for reserve in [0.1, 0.3] {
        let bench = Bench::shared(reserve);
        let (share, _) = bench.with_greedy(1, || bench.best_effort_share());
        eprintln!("reserve {reserve}: {share:.3} of all work");
        assert!(share >= 0.7 * reserve && share < 0.9, "{share:.3} at {reserve}");
    }
}

#[test]
fn client_in_its_budget_waits_for_one_greedy_task() {
    let _alone = ALONE.lock();
    let bench = Bench::shared(0.1);
    let (timings, greedy) = bench.with_greedy(2, || bench.paced());
    let mut waited: Vec<_> = timings.iter().map(|timing| overtaken_by(timing, &greedy)).collect();
    waited.sort();
    eprintln!("number of tasks waited for: {waited:?}");
    assert!(waited[waited.len() / 2] <= 1, "{waited:?}");
    assert!(waited.iter().any(|&count| count > 0), "no client was greedy: {waited:?}");
}
