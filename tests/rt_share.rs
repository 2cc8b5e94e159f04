//! What greedy real-time clients leave to others on a device: the reserve of best-effort work, and the starts of a
//! client that keeps within its budget.

use reef::cpu::Cpu;
use reef::scheduler::{Reef, RtShare, Scheduler};
use reef::{Account, Cells, ClientConfig, Device, Dispatcher, Rate, RtClient, Task, Timing};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LONG: u64 = 30; // milliseconds of a greedy client's task
const RUN: Duration = Duration::from_millis(1500);

/// The tests measure, one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// A device of one unit with a dispatcher.
struct Bench {
    cells: Cells<Cpu>,
    dispatcher: Dispatcher<Cpu>,
    rounds_a_ms: u64,
}

impl Bench {
    fn new(scheduler: Box<dyn Scheduler>) -> Self {
        let device = Cpu::open(0, "units=1").unwrap();
        let cells = Cells::new(&device, 1).unwrap();
        let dispatcher = Dispatcher::start(&device, scheduler).unwrap();
        let mut bench = Self { cells, dispatcher, rounds_a_ms: 1000 };
        let timings: Vec<_> =
            (0..9).map(|_| bench.client().run(&bench.task(10)).unwrap()).collect();
        let took = timings.iter().map(|timing| timing.device).min().unwrap();
        bench.rounds_a_ms = (1000.0 * 10.0 / (took.as_secs_f64() * 1e3)) as u64;
        bench
    }

    fn shared(reserve: f64) -> Self {
        Self::new(Box::new(RtShare::new(Box::new(Reef::default()), reserve)))
    }

    /// A task that takes about so many milliseconds, in kernels of one.
    fn task(&self, ms: u64) -> Task<Cpu> {
        let kernels: Vec<_> = (0..ms).map(|_| self.cells.append(1, self.rounds_a_ms)).collect();
        Task::new(kernels).unwrap()
    }

    fn client(&self) -> RtClient<Cpu> {
        self.dispatcher.real_time().unwrap()
    }

    /// Keeps two tasks with the dispatcher until the end.
    fn greedy(&self, end: &AtomicBool) {
        let (mut client, task) = (self.client(), self.task(LONG));
        let mut open = client.submit(&task).unwrap();
        while !end.load(Ordering::Relaxed) {
            let next = client.submit(&task).unwrap();
            std::mem::replace(&mut open, next).wait().unwrap();
        }
        open.wait().unwrap();
    }

    /// Kernels of a millisecond that a best-effort client gets done per second.
    fn best_effort(&self) -> f64 {
        let mut client = self.dispatcher.best_effort(ClientConfig::default()).unwrap();
        let (begin, mut done) = (Instant::now(), 0);
        while begin.elapsed() < RUN {
            client.run(self.task(4).commands()).unwrap();
            done += 4;
        }
        f64::from(done) / begin.elapsed().as_secs_f64()
    }

    /// What a client sees that asks for a millisecond every 40, of which 4 are its own.
    fn paced(&self) -> Vec<Timing> {
        let ms = Duration::from_millis;
        let (mut client, task) = (self.client(), self.task(1));
        client.charge(&Account::new(Some(Rate::new(ms(40), ms(4)).unwrap())));
        let begin = Instant::now();
        let run = |n| {
            thread::sleep((begin + ms(40) * n).saturating_duration_since(Instant::now()));
            client.run(&task).unwrap()
        };
        (0..RUN.as_millis() as u32 / 40).map(run).collect()
    }

    /// Runs `f` beside so many greedy clients.
    fn beside<R>(&self, greedy: usize, f: impl FnOnce() -> R) -> R {
        let end = AtomicBool::new(false);
        thread::scope(|scope| {
            (0..greedy).for_each(|_| drop(scope.spawn(|| self.greedy(&end))));
            thread::sleep(Duration::from_millis(100));
            let result = f();
            end.store(true, Ordering::Relaxed);
            result
        })
    }
}

fn median(timings: &[Timing]) -> Duration {
    let mut delays: Vec<_> = timings.iter().map(|timing| timing.delay).collect();
    delays.sort();
    delays[delays.len() / 2]
}

#[test]
fn best_effort_work_keeps_its_reserve_beside_a_greedy_client() {
    let _alone = ALONE.lock().unwrap();
    for reserve in [0.1, 0.3] {
        let bench = Bench::shared(reserve);
        let alone = bench.best_effort();
        let beside = bench.beside(1, || bench.best_effort());
        eprintln!("reserve {reserve}: {beside:.1} of {alone:.1}/s, {:.3}", beside / alone);
        // Other programs on the machine take from both, not at the same time.
        assert!(beside >= 0.7 * reserve * alone, "{beside:.1} of {alone:.1}/s at {reserve}");
    }
}

#[test]
fn a_client_in_its_budget_waits_for_one_task_of_greedy_ones() {
    let _alone = ALONE.lock().unwrap();
    let bench = Bench::shared(0.1);
    let timings = bench.beside(2, || bench.paced());
    let waited = median(&timings);
    eprintln!("waited {waited:?} at the median");
    assert!(waited <= Duration::from_millis(LONG + 5), "waited {waited:?}");
}
