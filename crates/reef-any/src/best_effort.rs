//! Best-effort clients and their requests.
//!
//! Waiting shares the client with other waiters, and lets other threads submit in between.

use crate::client::{AnyClient, Usage, gone};
use crate::fault::{Fault, Reason, Result};
use crate::memory::Side;
use crate::network::{AnyNetwork, of};
use crate::request::{AnyRequest, Request, Times};
use crate::trace::{EndedRequest, Requests};
use parking_lot::{Mutex, RwLock};
use reef::op::Operators;
use reef::{BeClient, Class, Seq};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Longest time that a waiter keeps others from submitting.
const TURN: Duration = Duration::from_millis(1);

/// A best-effort client.
pub(crate) struct BestEffort<D: Operators>(Arc<Shared<D>>);

struct Shared<D: Operators> {
    /// `None` once it was freed.
    client: RwLock<Option<BeClient<D>>>,
    /// Held while it is freed, for as long as its kernels run.
    closing: Mutex<()>,
    /// Commands that can wait.
    capacity: u64,
    /// Position that had completed when it was freed.
    completed: AtomicU64,
    /// Set if the device was lost with what it had of the client.
    lost: OnceLock<Fault>,
    device: D,
    requests: Arc<Requests>,
}

impl<D: Operators> BestEffort<D> {
    pub(crate) fn new(
        client: BeClient<D>,
        capacity: usize,
        device: D,
        requests: Arc<Requests>,
    ) -> Self {
        let (client, capacity) = (RwLock::new(Some(client)), capacity as u64);
        let (closing, completed, lost) = Default::default();
        Self(Arc::new(Shared { client, closing, capacity, completed, lost, device, requests }))
    }
}

impl<D: Operators> AnyClient for BestEffort<D> {
    fn submit(
        &self,
        network: &dyn AnyNetwork,
        side: Side,
        deadline: Option<Duration>,
    ) -> Result<Request> {
        let commands = &of::<D>(network)?.work(side)?.best_effort;
        let mut client = self.0.client.write();
        let client = client.as_mut().ok_or_else(gone)?;
        has_room(client, commands.len() as u64, self.0.capacity)?;
        let (since, submitted) = (Instant::now(), self.0.device.clock());
        let last = client.submit_before(commands, deadline)?;
        let (client, is_noted) = (self.0.clone(), AtomicBool::new(false));
        Ok(Arc::new(BestEffortRequest { client, last, since, submitted, is_noted }))
    }

    fn usage(&self) -> Option<Usage> {
        let served = self.0.client.read().as_ref()?.served();
        Some(Usage { served, requests: None, late: None })
    }

    fn close(&self) {
        let _closing = self.0.closing.lock(); // its requests go on until this is released
        let mut place = self.0.client.write();
        let Some(mut client) = place.take() else { return };
        self.0.completed.store(client.submitter().completed().0, Ordering::Relaxed);
        drop(place); // a waiter with a timeout needn't wait for what runs
        if let Err(error) = client.close() {
            let _ = self.0.lost.set(error.into()); // once, as the client was
        }
    }
}

impl<D: Operators> Shared<D> {
    /// Why requests that had not finished when the client was freed have ended.
    fn end(&self) -> Fault {
        self.lost.get().cloned().unwrap_or_else(gone)
    }
}

/// Refuses what the queue has no room for: submitting never blocks.
fn has_room<D: Operators>(client: &mut BeClient<D>, commands: u64, capacity: u64) -> Result<()> {
    if commands > capacity {
        let text =
            format!("the network has {commands} commands, the client's capacity is {capacity}");
        return Err(Fault::invalid(text));
    }
    let queue = client.submitter();
    let waiting = queue.submitted().0 - queue.completed().0;
    if waiting + commands > capacity {
        let text = format!(
            "the queue is full: {waiting} of {capacity} commands wait, {commands} more do not fit"
        );
        return Err(Fault::busy(text));
    }
    Ok(())
}

struct BestEffortRequest<D: Operators> {
    client: Arc<Shared<D>>,
    last: Seq,
    since: Instant,
    /// On the device's clock.
    submitted: Duration,
    /// True once a trace has it, or there was none at its end.
    is_noted: AtomicBool,
}

impl<D: Operators> BestEffortRequest<D> {
    /// Notes its end for a trace, once.
    fn note(&self) {
        if !self.is_noted.swap(true, Ordering::Relaxed) {
            self.client.requests.note(|| {
                let (submitted, ended) = (self.submitted, self.client.device.clock());
                EndedRequest { class: Class::BestEffort, submitted, began: submitted, ended }
            });
        }
    }

    /// Waits for `time` at most, as long as no thread may submit.
    fn turn(&self, time: Duration) -> Option<Result<Times>> {
        let client = self.client.client.read();
        let outcome = match client.as_ref() {
            Some(client) => client.wait_timeout(self.last, time)?.map_err(Fault::from),
            None if self.last.0 < self.client.completed.load(Ordering::Relaxed) => Ok(()),
            None => self.client.closing.try_lock_for(time).map(|_| Err(self.client.end()))?,
        };
        Some(outcome.map(|()| {
            self.note();
            Times { delay: None, device: None, total: self.since.elapsed() }
        }))
    }
}

impl<D: Operators> AnyRequest for BestEffortRequest<D> {
    fn poll(&self) -> Option<Result<Times>> {
        self.turn(Duration::ZERO)
    }

    fn wait(&self, limit: Option<Duration>) -> Option<Result<Times>> {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = end.map_or(TURN, |end| end.saturating_duration_since(Instant::now()));
            let how = self.turn(left.min(TURN));
            if how.is_some() || left.is_zero() {
                return how;
            }
        }
    }

    fn cancel(&self) -> Result<bool> {
        let text = "a best-effort request is cancelled with its client: free that";
        Err(Fault::new(Reason::Unsupported, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef::cpu::{Cpu, Kernel, Outcome};
    use reef::queue::Config;
    use reef::scheduler::Reef;
    use reef::{Args, ClientConfig, Command, Device, Dispatcher, Launch};
    use std::sync::mpsc;
    use std::thread;

    fn request_of(client: &BestEffort<Cpu>, last: Seq) -> BestEffortRequest<Cpu> {
        BestEffortRequest {
            client: client.0.clone(),
            last,
            since: Instant::now(),
            submitted: client.0.device.clock(),
            is_noted: AtomicBool::new(false),
        }
    }

    /// Otherwise its network's memory would be used again, while the kernel may still write it.
    #[test]
    fn lost_request_stays_lost_after_its_client_is_freed() {
        let device = Cpu::open(0, "units=1").unwrap();
        let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
        let queue = Config::default().drain_timeout(Duration::from_millis(50));
        let mut client = dispatcher.best_effort(ClientConfig::default().queue(queue)).unwrap();
        let (begun, begins) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let kernel = Kernel::new("hung", move |_, _| {
            let _ = begun.send(()); // a test that has failed doesn't wait
            while !ends.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            Outcome::Done
        });
        // SAFETY: the kernel takes no arguments and touches no memory of the device.
        let launch = unsafe { Launch::new(kernel, [1; 3], [1; 3], Args::new(&[])) };
        let last = client.submit(&[Command::Launch(launch)]).unwrap();
        begins.recv().unwrap();
        let client = BestEffort::new(client, 64, device.clone(), Arc::default());
        let request = request_of(&client, last);
        client.close();
        let how = request.poll();
        is_over.store(true, Ordering::Relaxed);
        let fault = how.expect("it has ended").unwrap_err();
        assert_eq!(fault.reason, Reason::Lost, "{fault}");
    }

    #[test]
    fn request_goes_on_while_its_client_is_freed() {
        let device = Cpu::open(0, "units=1").unwrap();
        let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
        let mut client = dispatcher.best_effort(ClientConfig::default()).unwrap();
        let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let ends = Mutex::new(ends);
        let block = Command::Host(Arc::new(move || {
            begun.send(()).unwrap();
            ends.lock().recv().unwrap();
        }));
        let last = client.submit(&[block, Command::Host(Arc::new(|| {}))]).unwrap();
        begins.recv().unwrap();
        let client = BestEffort::new(client, 64, device.clone(), Arc::default());
        let request = request_of(&client, last);
        let meanwhile = thread::scope(|scope| {
            scope.spawn(|| client.close());
            while client.usage().is_some() {
                thread::yield_now();
            }
            let meanwhile = [request.poll(), request.wait(Some(Duration::from_millis(3)))];
            end.send(()).unwrap();
            meanwhile
        });
        assert_eq!(meanwhile, [None, None], "its command still ran");
        let fault = request.poll().expect("it has ended").unwrap_err();
        assert_eq!(fault.reason, Reason::Cancelled);
    }
}
