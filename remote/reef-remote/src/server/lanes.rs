//! Lanes of a session: clients of the dispatcher, and a thread each that tells how far they are.

use super::objects::{Outputs, read_outputs};
use super::shared::{LaneThread, Outlet};
use crate::error::{NAME, RemoteError};
use crate::messages::{Advance, Failed};
use reef_core::{
    BeClient, ClientConfig, Dispatcher, Error, Result, RtClient, Task, Ticket, Timing,
};
use reef_op::Operators;
use reef_wire::little_endian::U64;
use reef_wire::{Cold, Hot, hot_bytes};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

/// Highest position of a lane: no device counts further.
pub(super) const MAX_POSITION: u64 = 1 << 60;
/// Maximum number of commands of a lane that have not ended.
const MAX_OUTSTANDING: usize = 1 << 16;

/// A lane of a shared device, as the thread that reads frames sees it.
#[derive(Debug)]
pub(super) struct SharedLane<D: Operators> {
    number: u32,
    /// Client of a real-time lane: its tasks are submitted by the thread that reads.
    real_time: Option<RtClient<D>>,
    items: Sender<Item<D>>,
    outstanding: Arc<AtomicUsize>,
    progress: Arc<Progress>,
}

#[derive(Debug)]
enum Item<D: Operators> {
    /// A real-time task that was submitted.
    Ticket(u64, Ticket<D>, Outputs<D>),
    /// A best-effort task to be submitted.
    Task(u64, Task<D>, Outputs<D>),
    /// The time when all before it has ended, which is at least the given one.
    Record(u64, Duration),
    Failed(Error),
    /// Time at which the last command ended, and whether the lane has failed: it was at another
    /// server before.
    Restore(Duration, bool),
    /// All has been sent. The client waits for a reply with this number.
    Close(u64),
}

/// Thread of a lane.
struct Teller<D: Operators> {
    lane: u32,
    device: D,
    outlet: Arc<Outlet>,
    items: Receiver<Item<D>>,
    outstanding: Arc<AtomicUsize>,
    progress: Arc<Progress>,
    /// Time at which the last command ended, on the client's clock.
    ended: Duration,
    has_failed: bool,
    _entered: LaneThread,
}

/// Progress of a lane that has nothing outstanding.
#[derive(Debug, Default)]
struct Progress {
    ended_nanos: AtomicU64,
    has_failed: AtomicBool,
}

impl<D: Operators> SharedLane<D> {
    pub(super) fn open(
        number: u32,
        is_real_time: bool,
        device: &D,
        dispatcher: &Dispatcher<D>,
        outlet: &Arc<Outlet>,
    ) -> Result<Self> {
        let (items, receiver) = channel();
        let outstanding = Arc::<AtomicUsize>::default();
        let progress = Arc::<Progress>::default();
        let teller = Teller {
            lane: number,
            device: device.clone(),
            outlet: outlet.clone(),
            items: receiver,
            outstanding: outstanding.clone(),
            progress: progress.clone(),
            ended: Duration::ZERO,
            has_failed: false,
            _entered: outlet.enter()?,
        };
        let thread = thread::Builder::new().name(format!("reef-lane-{number}"));
        let (real_time, spawned) = if is_real_time {
            (Some(dispatcher.real_time()?), thread.spawn(move || teller.tell_real_time()))
        } else {
            let client = dispatcher.best_effort(ClientConfig::default())?;
            (None, thread.spawn(move || teller.tell_best_effort(client)))
        };
        spawned.map_err(|e| Error::host("a thread for a lane", &e))?;
        Ok(Self { number, real_time, items, outstanding, progress })
    }

    /// Runs a task. An error is the lane's, and is told in its order.
    ///
    /// # Errors
    ///
    /// `Protocol` if the client has sent more than it may.
    pub(super) fn run(
        &mut self,
        seq: u64,
        task: Result<Task<D>>,
        outputs: Outputs<D>,
    ) -> reef_wire::Result<()> {
        let item = match (task, &mut self.real_time) {
            (Err(error), _) => Item::Failed(error),
            (Ok(task), None) => Item::Task(seq, task, outputs),
            (Ok(task), Some(client)) => loop {
                match client.submit(&task) {
                    Ok(ticket) => break Item::Ticket(seq, ticket, outputs),
                    // The dispatcher takes some first.
                    Err(Error::State { .. }) => thread::yield_now(),
                    Err(error) => break Item::Failed(error),
                }
            },
        };
        self.send(item)
    }

    pub(super) fn record(&self, seq: u64, now: Duration) -> reef_wire::Result<()> {
        self.send(Item::Record(seq, now))
    }

    /// Ends the lane. The reply follows when all of its work has ended.
    pub(super) fn close(self, request: u64) {
        let _ = self.items.send(Item::Close(request)); // the thread is gone: so is the session
    }

    /// Returns whether all that was sent has ended and was told.
    pub(super) fn is_quiet(&self) -> bool {
        self.outstanding.load(Ordering::SeqCst) == 0
    }

    /// Returns the client's time at which the last command ended, and whether the lane has failed.
    pub(super) fn progress(&self) -> (Duration, bool) {
        let nanos = self.progress.ended_nanos.load(Ordering::SeqCst);
        (Duration::from_nanos(nanos), self.progress.has_failed.load(Ordering::SeqCst))
    }

    /// Continues a lane of another server.
    pub(super) fn restore(&self, ended: Duration, has_failed: bool) -> reef_wire::Result<()> {
        self.send(Item::Restore(ended, has_failed))
    }

    fn send(&self, item: Item<D>) -> reef_wire::Result<()> {
        if self.outstanding.fetch_add(1, Ordering::Relaxed) >= MAX_OUTSTANDING {
            let (lane, most) = (self.number, MAX_OUTSTANDING);
            let text = format!("lane {lane}: must have at most {most} commands outstanding");
            return Err(reef_wire::Error::Protocol(text));
        }
        let _ = self.items.send(item); // the thread is gone: so is the session
        Ok(())
    }
}

impl<D: Operators> Teller<D> {
    fn tell_real_time(mut self) {
        while let Ok(item) = self.items.recv() {
            match item {
                Item::Ticket(seq, ticket, outputs) => {
                    let outcome = ticket.wait();
                    let outcome = outcome.map(|timing| self.times(&timing));
                    self.end_task(seq, outcome, &outputs);
                }
                Item::Close(request) => return self.reply(request),
                other => self.tell(other),
            }
        }
    }

    /// Submits tasks as they come, and waits for the oldest while there is none.
    fn tell_best_effort(mut self, mut client: BeClient<D>) {
        let mut submitted = VecDeque::new();
        let mut closing = None;
        loop {
            let item = match (submitted.is_empty() && closing.is_none(), closing) {
                (true, _) => match self.items.recv() {
                    Ok(item) => Some(item),
                    Err(_) => return, // the session is over: the client's drop cancels the rest
                },
                (false, None) => match self.items.try_recv() {
                    Ok(item) => Some(item),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => return,
                },
                (false, Some(_)) => None,
            };
            match (item, submitted.pop_front()) {
                (Some(item), front) => {
                    if let Some(front) = front {
                        submitted.push_front(front);
                    }
                    match item {
                        Item::Task(seq, task, outputs) if !self.has_failed => {
                            match client.submit(task.commands()) {
                                Ok(last) => submitted
                                    .push_back((Some(last), Item::Task(seq, task, outputs))),
                                Err(error) => submitted.push_back((None, Item::Failed(error))),
                            }
                        }
                        Item::Close(request) => closing = Some(request),
                        other => submitted.push_back((None, other)),
                    }
                }
                (None, Some((Some(last), Item::Task(seq, _, outputs)))) => {
                    let outcome = client.wait(last);
                    let now = self.outlet.time(self.device.clock());
                    self.end_task(seq, outcome.map(|()| [self.ended, now]), &outputs);
                }
                (None, Some((_, item))) => self.tell(item),
                (None, None) => break,
            }
        }
        drop(client);
        if let Some(request) = closing {
            self.reply(request);
        }
    }

    fn end_task(&mut self, seq: u64, times: Result<[Duration; 2]>, outputs: &Outputs<D>) {
        let read = |times| Ok((times, read_outputs(&self.device, outputs)?));
        match times.and_then(read) {
            Ok((times, outputs)) => self.advance(seq, times, &outputs),
            Err(error) => self.tell(Item::Failed(error)),
        }
    }

    fn tell(&mut self, item: Item<D>) {
        match item {
            Item::Record(seq, asked) => self.advance(seq, [self.outlet.time(asked); 2], &[]),
            Item::Failed(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    self.fail(&error);
                }
                self.note_end();
            }
            Item::Restore(ended, has_failed) => {
                (self.ended, self.has_failed) = (ended, has_failed);
                self.note_end();
            }
            _ => self.note_end(),
        }
    }

    /// One item less is outstanding. What is told of it was pushed.
    fn note_end(&self) {
        self.progress.ended_nanos.store(self.ended.as_nanos() as u64, Ordering::SeqCst);
        self.progress.has_failed.store(self.has_failed, Ordering::SeqCst);
        self.outstanding.fetch_sub(1, Ordering::SeqCst);
    }

    /// Client's times at which a task began and ended.
    fn times(&self, timing: &Timing) -> [Duration; 2] {
        let began = timing.submitted + timing.delay;
        [began, began + timing.device].map(|at| self.outlet.time(at))
    }

    /// Tells that all commands up to `seq` have ended, and when this one began and ended. Times
    /// never go back.
    fn advance(&mut self, seq: u64, [began, ended]: [Duration; 2], outputs: &[u8]) {
        if self.has_failed {
            return self.note_end();
        }
        let began = began.max(self.ended);
        self.ended = ended.max(began);
        let [began, ended] = [began, self.ended].map(|at| U64::new(at.as_nanos() as u64));
        let advance = Advance { done: U64::new(seq + 1), began, ended, left: U64::new(0) };
        // Errors end the session, and this thread with it.
        let parts = [hot_bytes(&advance), outputs];
        let _ = self.outlet.push(Advance::OP, self.lane, &parts);
        self.note_end();
        self.outlet.flush();
    }

    fn fail(&self, error: &Error) {
        let failed = Failed { error: RemoteError::from(error) };
        if let Ok(body) = failed.to_bytes() {
            let _ = self.outlet.push(Failed::OP, self.lane, &[&body]);
            self.outlet.flush();
        }
    }

    fn reply(&self, request: u64) {
        self.outlet.reply(request);
    }
}

/// The error of work on a lane that isn't there.
pub(super) fn no_lane(number: u32) -> reef_wire::Error {
    reef_wire::Error::Protocol(format!("{NAME}: there is no lane {number}"))
}
