//! Real-time tasks of clients: their order, tickets, cancelling, executors.

use reef::cpu::{Cpu, Kernel, Outcome};
use reef::scheduler::{EarliestDeadline, FixedPriority, RtOnly, Scheduler};
use reef::{
    Args, ClientConfig, Command, Device, Dispatcher, Error, Launch, Result, RtClient, Task, Timing,
    testing::{Cells, appended},
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// A device with a dispatcher, whose tasks append their numbers to the same cell.
struct Bench {
    cells: Cells<Cpu>,
    dispatcher: Dispatcher<Cpu>,
    /// Until then number 1 runs.
    is_released: Arc<AtomicBool>,
    has_begun: Arc<AtomicBool>,
}

impl Bench {
    fn new(scheduler: impl Scheduler + 'static) -> Self {
        let device = Cpu::open(0, "units=1").unwrap();
        let cells = Cells::new(&device, 1).unwrap();
        let dispatcher = Dispatcher::start(&device, scheduler).unwrap();
        Self { cells, dispatcher, is_released: Arc::default(), has_begun: Arc::default() }
    }

    /// A task that appends `number`; number 1 runs until it is released, so that what follows is
    /// submitted meanwhile.
    fn task(&self, number: u64) -> Task<Cpu> {
        let append = self.cells.append(number, 10);
        let commands = if number == 1 { vec![self.waits(), append] } else { vec![append] };
        Task::new(commands).unwrap()
    }

    /// Waits until number 1 runs: the service thread may be in a pass when it is submitted, and
    /// start it later than what comes next.
    fn until_begun(&self) {
        let begin = Instant::now();
        while !self.has_begun.load(Ordering::SeqCst) {
            assert!(begin.elapsed() < 60 * SECOND, "number 1 never begins");
            thread::yield_now();
        }
    }

    fn waits(&self) -> Command<Cpu> {
        let (is_released, has_begun) = (self.is_released.clone(), self.has_begun.clone());
        let kernel = Kernel::new("waits", move |_, _| {
            has_begun.store(true, Ordering::SeqCst);
            while !is_released.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            Outcome::Done
        });
        // SAFETY: the kernel takes no arguments and touches no memory of the device.
        Command::Launch(unsafe { Launch::new(kernel, [1; 3], [1; 3], Args::new(&[])) })
    }

    fn release(&self) {
        self.is_released.store(true, Ordering::SeqCst);
    }

    fn client(&self) -> RtClient<Cpu> {
        self.dispatcher.real_time().unwrap()
    }

    /// These numbers, and no others, were appended in this order.
    fn expect(&self, order: &[u64]) {
        assert_eq!(self.cells.read().unwrap(), [appended(order.iter().copied())], "{order:?}");
    }
}

#[test]
fn urgent_task_overtakes_one_with_a_later_deadline() {
    let bench = Bench::new(EarliestDeadline::default());
    let mut client = bench.client();
    let deadlines =
        [(1, None), (2, Some(1000 * SECOND)), (3, Some(500 * SECOND)), (4, Some(SECOND))];
    let tickets = deadlines.map(|(number, deadline)| {
        let ticket = client.submit_before(&bench.task(number), deadline).unwrap();
        bench.until_begun();
        ticket
    });
    bench.release();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    bench.expect(&[1, 4, 3, 2]);
}

/// One task runs and one is next; of the others the higher one comes first.
#[test]
fn tasks_of_high_priority_overtake_low_ones() {
    let bench = Bench::new(FixedPriority::ageing(1000 * SECOND));
    let (mut low, mut high) = (bench.client(), bench.client().priority(1));
    let submit = |n| {
        let ticket = low.submit(&bench.task(n)).unwrap();
        bench.until_begun();
        // Waits for the pass of another thread, which may have this task to start.
        drop(bench.dispatcher.best_effort(ClientConfig::default()).unwrap());
        ticket
    };
    let mut tickets: Vec<_> = (1..=4).map(submit).collect();
    tickets.push(high.submit(&bench.task(5)).unwrap());
    bench.release();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    bench.expect(&[1, 2, 5, 3, 4]);
}

#[test]
fn waiting_task_can_be_cancelled_and_running_one_cannot() {
    let bench = Bench::new(EarliestDeadline::default());
    let mut client = bench.client();
    let [first, second, third] = [1, 2, 3].map(|n| client.submit(&bench.task(n)).unwrap());
    bench.until_begun();
    assert!(second.cancel(), "it waits for the first");
    assert!(!second.cancel(), "it has ended");
    assert_eq!(second.wait(), Err(Error::Cancelled));
    assert!(!first.cancel(), "it runs");
    bench.release();
    third.wait().unwrap();
    first.wait().unwrap();
    bench.expect(&[1, 3]);
}

#[test]
fn timed_wait_ends_and_the_task_goes_on() {
    let bench = Bench::new(EarliestDeadline::default());
    let mut client = bench.client();
    let ticket = client.submit(&bench.task(1)).unwrap();
    assert_eq!(ticket.wait_timeout(Duration::ZERO), None);
    bench.release();
    let timing = ticket.wait_timeout(Duration::MAX).expect("no limit").unwrap();
    assert_eq!(ticket.wait_timeout(Duration::ZERO), Some(Ok(timing)));
    bench.expect(&[1]);
}

#[test]
fn client_clones_submit_on_their_own_threads() {
    let bench = Bench::new(EarliestDeadline::default());
    let (client, task) = (bench.client(), &bench.task(7));
    thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = client.clone();
            scope.spawn(move || client.run(task).unwrap());
        }
    });
    bench.expect(&[7; 4]);
}

/// Two in flight at once, each awaited in turn.
async fn two(mut client: RtClient<Cpu>, tasks: [Task<Cpu>; 2]) -> Result<[Timing; 2]> {
    let [first, second] = tasks.each_ref().map(|task| client.submit(task));
    let (second, first) = (second?.await?, first?.await?);
    Ok([first, second])
}

/// An executor for one future: the thread parks until the future's waker unparks it.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn ticket_is_a_future_for_any_executor() {
    let bench = Bench::new(RtOnly);
    bench.release();
    let run = || two(bench.client(), [1, 2].map(|number| bench.task(number)));
    let [first, second] = block_on(run()).unwrap();
    assert!(first.total > first.device && second.submitted > first.submitted);
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tokio.block_on(run()).unwrap();
    bench.expect(&[1, 2, 1, 2]);
}

#[test]
fn future_of_a_dropped_dispatcher_ends() {
    let bench = Bench::new(EarliestDeadline::default());
    let mut client = bench.client();
    let [first, second] = [1, 2].map(|number| client.submit(&bench.task(number)).unwrap());
    bench.until_begun();
    let is_released = bench.is_released.clone();
    let waits = thread::spawn(move || {
        let how = block_on(second);
        is_released.store(true, Ordering::SeqCst); // which the dispatcher's end waits for
        how
    });
    drop(bench);
    first.wait().unwrap();
    assert_eq!(waits.join().unwrap(), Err(Error::Cancelled));
}
