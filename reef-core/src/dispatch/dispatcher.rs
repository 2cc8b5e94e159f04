//! Applies a [`Scheduler`]'s decisions to a device: one real-time queue, any number of best-effort
//! queues.

use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::dispatch::be_client::BeClient;
use crate::dispatch::neighbours::Neighbours;
use crate::dispatch::pass::Dispatch;
use crate::dispatch::queues::rt_queue::RtQueue;
use crate::dispatch::rt_client::RtClient;
use crate::dispatch::state::{PassState, Stats};
use crate::dispatch::watch::{HANG_TIMEOUT, watch};
use crate::limits::ClientConfig;
use crate::scheduler::policy::Scheduler;
use crate::vqueue::group::Group;
use crate::vqueue::parked::Parked;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Runs the work of many clients on one device as a [`Scheduler`] decides.
///
/// Clients come and go while it runs. Dropping it finishes the real-time tasks that the device has
/// and cancels everything else.
///
/// ```
/// use reef_core::scheduler::Reef;
/// use reef_core::{ClientConfig, Command, Device, Dispatcher, Result, Task};
///
/// /// Runs real-time work while best-effort work is on the device.
/// fn share<D: Device>(device: &D, urgent: &Task<D>, other: &[Command<D>]) -> Result<()> {
///     let dispatcher = Dispatcher::start(device, Reef::default())?;
///     let mut background = dispatcher.best_effort(ClientConfig::default())?;
///     let last = background.submit(other)?; // returns at once
///     let timing = dispatcher.real_time()?.run(urgent)?; // preempts the other work
///     println!("after {:?}, {} preemptions", timing.delay, dispatcher.stats().preemptions);
///     background.wait(last) // each block of it has taken effect once
/// }
/// ```
#[derive(Debug)]
pub struct Dispatcher<D: Device> {
    pub(super) dispatch: Arc<Dispatch<D>>,
    service: Option<Service>,
}

/// Threads of a dispatcher.
#[derive(Debug)]
struct Service {
    thread: JoinHandle<()>,
    /// The service thread drops its end.
    ended: Mutex<Receiver<()>>,
    /// Ends the watch when it is dropped.
    watches: Sender<()>,
    /// The watch drops its end.
    watch_ended: Mutex<Receiver<()>>,
}

impl<D: Device> Dispatcher<D> {
    /// Starts it with no clients. A scheduler that is chosen at run time comes as a `Box<dyn
    /// Scheduler>`.
    ///
    /// # Errors
    ///
    /// `Level` if the device is not as deep as the scheduler asks; an error of the driver.
    pub fn start(device: &D, scheduler: impl Scheduler + 'static) -> Result<Self> {
        Self::start_within(device, Box::new(scheduler), HANG_TIMEOUT)
    }

    /// As [`start`](Self::start); a call of the driver in a pass hangs after `timeout`.
    pub(super) fn start_within(
        device: &D,
        scheduler: Box<dyn Scheduler>,
        timeout: Duration,
    ) -> Result<Self> {
        let group = Group::open(device, scheduler.level())?;
        let rt = RtQueue::open(device, scheduler.rt_priority())?;
        let dispatch = Arc::new(Dispatch::new(device, group, PassState::new(scheduler, rt)));
        let service = Service::spawn(&dispatch, timeout)?;
        let thread = service.thread.thread().clone();
        dispatch.with(|state| state.rt.served_by(thread)).ok_or_else(|| dispatch.hang_error())?;
        Ok(Self { dispatch, service: Some(service) })
    }

    /// Returns a client whose tasks are real-time. The scheduler decides when they start, and in
    /// which order.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    pub fn real_time(&self) -> Result<RtClient<D>> {
        RtClient::new(self.dispatch.clone())
    }

    /// A client with a queue of its own for best-effort work.
    ///
    /// # Errors
    ///
    /// `Invalid` for sizes in `config.queue` that contradict each other; the reason for which the
    /// device is [lost](Self::lost); `State` if a call of the driver hangs; an error of the driver.
    /// The level in `config.queue` is not used: it is the scheduler's.
    pub fn best_effort(&self, config: ClientConfig) -> Result<BeClient<D>> {
        BeClient::new(self.dispatch.clone(), config, Parked::empty())
    }

    /// As [`best_effort`](Self::best_effort), with the commands that a parked queue had left.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`best_effort`](Self::best_effort); `Invalid` if the parked commands
    /// are more than `config.queue.capacity`; the errors of [`Device::checkpoint_of`].
    pub fn best_effort_parked(
        &self,
        config: ClientConfig,
        parked: Parked<D>,
    ) -> Result<BeClient<D>> {
        BeClient::new(self.dispatch.clone(), config, parked)
    }

    /// Returns the counts so far, with those of a pass that runs unless it lasts long.
    pub fn stats(&self) -> Stats {
        self.dispatch.try_with(|_| ());
        self.dispatch.counts.read(self.dispatch.group.abandoned())
    }

    /// Starts to record the times at which best-effort work is preempted, the first 65,536, or
    /// stops.
    pub fn set_trace(&self, on: bool) {
        self.dispatch.try_with(|state| state.preempted = on.then(Vec::new));
    }

    /// Takes the times recorded so far, on the [device's clock](Device::clock).
    pub fn take_trace(&self) -> Vec<Duration> {
        let times = self.dispatch.try_with(|state| state.preempted.as_mut().map(std::mem::take));
        times.flatten().unwrap_or_default()
    }

    /// Sets the other users of the same device: this dispatcher's real-time work holds their
    /// best-effort work, and theirs preempts its queues.
    pub fn set_neighbours(&self, neighbours: Option<Arc<dyn Neighbours>>) {
        self.dispatch.with(|state| state.neighbours.set(neighbours)); // of a lost device none
        self.run_pass();
    }

    /// Makes a pass: something has changed that the dispatcher isn't told otherwise.
    pub fn run_pass(&self) {
        self.dispatch.pass();
    }

    /// Marks the device lost: all work that waits, on the device or for it, ends with `error`, and
    /// so does all later work. Work of real-time queues on the device ends as the device reports
    /// it, or with `error` too if a call of the driver lasts. Calls no driver, and takes 0.1 s at
    /// most.
    ///
    /// A device is marked lost without being told if it refuses to restore best-effort work for
    /// half a second, and if a call of the driver, by any thread that starts or ends real-time
    /// work, does not return for ten seconds.
    pub fn mark_lost(&self, error: &Error) {
        self.dispatch.mark_lost(error);
    }

    /// Returns the reason for which the device is abandoned, if it is. Doesn't block.
    pub fn lost(&self) -> Option<Error> {
        self.dispatch.lost.get().cloned()
    }

    /// Returns whether best-effort work is preempted, or about to be.
    pub fn is_preempted(&self) -> bool {
        self.dispatch.group.is_preempted()
    }
}

impl Service {
    fn spawn<D: Device>(dispatch: &Arc<Dispatch<D>>, timeout: Duration) -> Result<Self> {
        let (ready, go) = channel::<()>();
        let (ends, ended) = channel::<()>();
        let (watches, unwatched) = channel::<()>();
        let (watch_ends, watch_ended) = channel::<()>();
        // Both threads leave the dispatcher before they say that they have ended: the last one to
        // leave closes the device, which a process must not do while it exits.
        let watched = dispatch.clone();
        named::<D>("watch", move || {
            let (_ends, watched) = (watch_ends, watched);
            watch(&watched, timeout, &unwatched);
        })?;
        let served = dispatch.clone();
        let thread = named::<D>("dispatch", move || {
            let (_ends, served) = (ends, served);
            let _ = go.recv(); // until `service` is set
            served.serve();
        })?;
        dispatch.served_by(thread.thread().clone());
        drop(ready);
        let [ended, watch_ended] = [ended, watch_ended].map(Mutex::new);
        Ok(Self { thread, ended, watches, watch_ended })
    }

    /// Ends the service thread. `false`: it hangs, or another one does that it waits for.
    fn end<D: Device>(&self, dispatch: &Dispatch<D>) -> bool {
        self.thread.thread().unpark();
        let ended = self.ended.lock();
        while ended.recv_timeout(END_POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if dispatch.hangs() {
                return false;
            }
        }
        true
    }

    /// Ends the watch. One that runs a waker is not waited for any longer than [`WATCH_TIMEOUT`].
    fn end_watch(self) {
        drop(self.watches);
        let _ = self.watch_ended.lock().recv_timeout(WATCH_TIMEOUT);
    }
}

fn named<D: Device>(what: &str, f: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(format!("reef-{}-{what}", D::NAME)).spawn(f);
    thread.map_err(|e| Error::host("no thread for a dispatcher", &e))
}

impl<D: Device> Dispatcher<D> {
    /// Ends what is left. `None`: a thread hangs in the device and has the rest, which ends when it
    /// comes back.
    fn close(&self) -> Option<()> {
        self.dispatch.with(|state| state.close(Error::Cancelled))?;
        self.dispatch.pass(); // cancels requests that came in meanwhile
        while !self.dispatch.with(|state| state.rt.is_idle())? {
            if self.dispatch.lost.get().is_some() {
                self.dispatch.with(|state| state.rt.abandon(&self.dispatch.hang_error()))?;
            }
            thread::yield_now(); // without the lock: clients check whether their time is over
        }
        self.dispatch.with(|state| state.neighbours.set(None))?;
        let queues = self.dispatch.with(|state| std::mem::take(&mut state.queues))?;
        self.dispatch.pass(); // what a client left to the service thread
        drop(queues); // cancels what waits, and waits for what runs
        Some(())
    }
}

impl<D: Device> Drop for Dispatcher<D> {
    fn drop(&mut self) {
        self.dispatch.closing.store(true, Ordering::SeqCst);
        let service = self.service.take();
        if service.as_ref().is_none_or(|service| service.end(&self.dispatch)) {
            self.close();
        }
        service.into_iter().for_each(Service::end_watch);
    }
}

/// Time for which a thread that drops a dispatcher waits for the watch's end.
const WATCH_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which a thread that drops a dispatcher checks whether another one hangs.
const END_POLL_INTERVAL: Duration = Duration::from_millis(10);
