//! Slots of connections of gRPC and HTTP, one pool for each kind of endpoint, by the rule of
//! [`reef_guest::slots`].
//!
//! | a connection | its slot goes to another that needs it after | it goes in any case after |
//! |---|---|---|
//! | has not been read from | never | never |
//! | has sent no request | 0.5 s; over TCP 50 ms, after the handshake of TLS | `times.idle_ms` |
//! | had its first request refused | 50 ms | 3 s, in which it can read the reason |
//! | owes the rest of a request | 0.5 s, or 5 s if it was served before | `times.idle_ms` |
//! | reads nothing of its answers | 0.5 s, or 5 s | `times.write_ms` |
//! | waits for the daemon | never | never |
//! | has a stream without a request | 5 s | never |
//! | has no open request | 0.5 s | never |
//!
//! The first line that applies to one of its requests counts for the connection; the daemon's work
//! precedes all.
//!
//! A connection without a request keeps its slot while bytes wait in its socket, and until the
//! daemon has processed them: it may have stood still since they came. The daemon reads on as soon
//! as it runs, until there are none, but a client may send bytes that are not a request without a
//! pause. So they keep the slot for 5 s, from the time at which another connection needs it. The
//! daemon may leave bytes unread while it makes an answer, which keeps the slot anyway, while the
//! client must read one, and after the refusal of a first request. In the last two cases the socket
//! is not asked.

use crate::config::limits::Times;
use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use parking_lot::Mutex;
use reef_guest::slots::{Activity, SlotShares, Slots, Timeouts};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time that a connection over TCP has at least to show a token.
const PROOF_TIMEOUT: Duration = Duration::from_millis(50);

/// Time for which a connection without a request is in use.
const IDLE_TIMEOUT: Duration = Duration::from_millis(500);

/// Time that progress may take while slots are needed: of a connection that was never served, and
/// of one that was.
const PROGRESS_TIMEOUTS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];

/// Time that a refused client has to send the rest of its request and to read the reason.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Pool of one kind of endpoint.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    /// A connection over TCP has no principal until it has asked for something: a token may be
    /// another's.
    table: Mutex<Slots<Option<Principal>, PooledConnection>>,
    /// `times.idle_ms` and `times.write_ms`.
    idle: Duration,
    write: Duration,
}

/// Value of a connection in its pool.
struct PooledConnection {
    /// Dropped with the slot.
    _loss: oneshot::Sender<Infallible>,
    /// Returns whether bytes wait in its socket or are processed. `None` until its handshake is
    /// complete.
    has_input: Option<Box<dyn Fn() -> bool + Send>>,
}

impl PooledConnection {
    fn has_input(&self) -> bool {
        self.has_input.as_ref().is_some_and(|has_input| has_input())
    }
}

/// Completes when a connection has lost its slot.
pub(crate) type SlotLoss = oneshot::Receiver<Infallible>;

impl ConnectionPool {
    pub(crate) fn new(parts: SlotShares, times: &Times) -> Arc<Self> {
        let table = Mutex::new(Slots::asking(parts, PooledConnection::has_input));
        Arc::new(Self { table, idle: times.idle(), write: times.write() })
    }

    /// Returns a slot for a connection of `principal`, which may show a token later. One that is
    /// `late` came sooner than its principal may connect, and must show one.
    ///
    /// # Errors
    ///
    /// `Exhausted` if all slots that it may have are in use.
    pub(crate) fn enter(
        self: &Arc<Self>,
        principal: Principal,
        is_late: bool,
    ) -> Result<(ConnectionSlot, SlotLoss)> {
        let ((keep, lost), standing) = (oneshot::channel(), principal.standing());
        // Until it is waited for: its request may have come already, and the daemon may be slow.
        let first = Timeouts { activity: Activity::New, yields: None, ends: None };
        let is_local = principal.is_local();
        let holder = is_local.then(|| principal.clone());
        let kept = PooledConnection { _loss: keep, has_input: None };
        let mut table = self.table.lock();
        let number = table.enter(holder, standing, first, kept, Instant::now());
        let number =
            number.map_err(|(full, _)| Error::Exhausted(full.text("connections", &principal)))?;
        let uses = Mutex::new(Uses { first: Some(first), ..Uses::default() });
        Ok((ConnectionSlot { pool: self.clone(), number, is_late, is_local, uses }, lost))
    }

    /// Takes the slots of connections that have made no progress for too long.
    pub(crate) fn sweep(&self) {
        self.table.lock().sweep(Instant::now());
    }
}

/// Slot of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    pool: Arc<ConnectionPool>,
    number: u64,
    is_late: bool,
    is_local: bool,
    /// Locked before the pool's table.
    uses: Mutex<Uses>,
}

/// Requests of a connection, and its socket.
#[derive(Debug, Default)]
struct Uses {
    /// Requests in each [`Stage`].
    stages: [usize; 4],
    /// True if one of its requests has ended.
    is_served: bool,
    /// True while its socket takes no bytes.
    is_blocked: bool,
    /// Timeouts until its first request is admitted.
    first: Option<Timeouts>,
}

/// Stage of a request: the event that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// For bytes of the client.
    Arriving,
    /// For the daemon.
    Working,
    /// For the client to read the answer.
    Answering,
    /// For the next request of a stream.
    Streaming,
}

impl Uses {
    fn timeouts(&self, write: Duration) -> Timeouts {
        let progress = Some(PROGRESS_TIMEOUTS[usize::from(self.is_served)]);
        let owing = |ends| Timeouts { activity: Activity::Owing, yields: progress, ends };
        let resting =
            |yields| Timeouts { activity: Activity::Resting, yields: Some(yields), ends: None };
        let has = |stage: Stage| self.stages[stage as usize] > 0;
        if self.is_blocked {
            owing(Some(write))
        } else if has(Stage::Working) {
            Timeouts::WORKING
        } else if has(Stage::Answering) {
            owing(Some(write))
        } else if has(Stage::Arriving) {
            owing(None)
        } else if has(Stage::Streaming) {
            resting(PROGRESS_TIMEOUTS[1])
        } else {
            self.first.unwrap_or(resting(IDLE_TIMEOUT))
        }
    }
}

impl ConnectionSlot {
    /// Notes that a request of `principal` has begun to arrive; the connection belongs to that
    /// principal from now on.
    ///
    /// # Errors
    ///
    /// `Exhausted` if the slot was taken away, all slots of that principal are in use, or it
    /// connects too often and shows nothing.
    pub(crate) fn begin(self: &Arc<Self>, principal: &Principal) -> Result<OpenRequest> {
        if self.is_late && principal.is_anonymous() {
            let text = "connections without token or certificate: too many per second (limits.connects_per_second)";
            return Err(Error::Exhausted(text.into()));
        }
        {
            let mut table = self.pool.table.lock();
            if !table.has(self.number) {
                let text = "connection closed: another connection needed its slot";
                return Err(Error::Exhausted(text.into()));
            }
            let (holder, standing) = (Some(principal.clone()), principal.standing());
            let given = table.pass_on(self.number, &holder, standing, Instant::now());
            given.map_err(|full| Error::Exhausted(full.text("connections", principal)))?;
        }
        self.change(|uses| {
            uses.first = None;
            uses.stages[Stage::Arriving as usize] += 1;
        });
        let progress =
            Progress { stage: Stage::Arriving, has_more: false, unread: 0, is_passed: false };
        let progress = Mutex::new(progress);
        Ok(OpenRequest { slot: self.clone(), progress })
    }

    /// Has `has_input` say whether bytes wait in the socket, before another connection gets the
    /// slot. It must neither block nor use the pool, which is locked.
    pub(crate) fn watch(&self, has_input: impl Fn() -> bool + Send + 'static) {
        if let Some(kept) = self.pool.table.lock().get_mut(self.number) {
            kept.has_input = Some(Box::new(has_input));
        }
    }

    /// Notes that the daemon waits for the first request. Over TCP it must come soon, because the
    /// client may show nothing.
    pub(crate) fn expect(&self) {
        self.wait_at_most(if self.is_local { IDLE_TIMEOUT } else { PROOF_TIMEOUT });
    }

    /// Notes that the daemon waits for a handshake, which the first request follows.
    pub(crate) fn expect_handshake(&self) {
        self.wait_at_most(IDLE_TIMEOUT);
    }

    /// Has its time begin, unless it has made a request.
    fn wait_at_most(&self, time: Duration) {
        let mut uses = self.uses.lock();
        let Some(first) = &mut uses.first else { return };
        first.yields = Some(first.yields.map_or(time, |before| before.min(time)));
        first.ends = first.ends.or(Some(self.pool.idle));
        self.pool.table.lock().set(self.number, *first, Instant::now());
    }

    /// Notes that a request was refused. If none was admitted, the connection soon ends, whatever
    /// bytes wait in its socket.
    pub(crate) fn refuse(&self) {
        let mut is_first = false;
        self.change(|uses| {
            if let Some(first) = &mut uses.first {
                let (yields, ends) = (Some(PROOF_TIMEOUT), Some(REFUSAL_TIMEOUT));
                *first = Timeouts { yields, ends, ..*first };
                is_first = true;
            }
        });
        if is_first {
            self.watch(|| false);
        }
    }

    /// Notes whether the socket takes bytes.
    pub(crate) fn set_blocked(&self, is_blocked: bool) {
        self.change(|uses| uses.is_blocked = is_blocked);
    }

    /// Changes the uses, which is progress.
    fn change(&self, change: impl FnOnce(&mut Uses)) {
        let mut uses = self.uses.lock();
        change(&mut uses);
        let timeouts = uses.timeouts(self.pool.write);
        self.pool.table.lock().set(self.number, timeouts, Instant::now());
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.pool.table.lock().remove(self.number);
    }
}

/// A request without a complete answer.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    slot: Arc<ConnectionSlot>,
    /// Locked before the slot's uses.
    progress: Mutex<Progress>,
}

/// Progress of an open request.
#[derive(Debug)]
struct Progress {
    stage: Stage,
    /// A process makes further parts of the answer.
    has_more: bool,
    /// Parts of the answer that are passed on and not in the socket.
    unread: usize,
    /// The answer is passed on as far as it is there.
    is_passed: bool,
}

impl Progress {
    /// Returns the next stage, if the client has read the answer as far as it is there.
    fn after_reading(&self) -> Option<Stage> {
        let is_read = self.is_passed && self.unread == 0 && self.stage == Stage::Answering;
        is_read.then_some(if self.has_more { Stage::Working } else { Stage::Streaming })
    }
}

/// A part of an answer that is passed on. Dropped when it is in the socket; the request is open
/// until then.
#[derive(Debug)]
pub(crate) struct UnreadPart(Arc<OpenRequest>);

impl Drop for UnreadPart {
    fn drop(&mut self) {
        let mut progress = self.0.progress.lock();
        progress.unread -= 1;
        self.0.settle(&mut progress);
    }
}

impl OpenRequest {
    /// Notes progress: the request waits for something from now on.
    pub(crate) fn enter(&self, next: Stage) {
        self.change(&mut self.progress.lock().stage, next);
    }

    fn change(&self, stage: &mut Stage, next: Stage) {
        self.slot.change(|uses| {
            uses.stages[*stage as usize] -= 1;
            uses.stages[next as usize] += 1;
        });
        *stage = next;
    }

    /// Notes whether a process makes further parts of the answer.
    pub(crate) fn set_has_more(&self, has_more: bool) {
        let mut progress = self.progress.lock();
        progress.has_more = has_more;
        if !has_more && progress.stage == Stage::Working {
            self.change(&mut progress.stage, Stage::Streaming);
        }
    }

    /// Notes that a part of the answer is passed on.
    pub(crate) fn pass_on(self: &Arc<Self>) -> UnreadPart {
        let mut progress = self.progress.lock();
        progress.unread += 1;
        progress.is_passed = false;
        self.change(&mut progress.stage, Stage::Answering);
        UnreadPart(self.clone())
    }

    /// Notes that the answer is passed on as far as it is there.
    pub(crate) fn note_passed(&self) {
        let mut progress = self.progress.lock();
        progress.is_passed = true;
        self.settle(&mut progress);
    }

    fn settle(&self, progress: &mut Progress) {
        if let Some(next) = progress.after_reading() {
            self.change(&mut progress.stage, next);
        }
    }

    /// Notes progress if the request waits for `from`.
    pub(crate) fn leave(&self, from: Stage, next: Stage) {
        let mut progress = self.progress.lock();
        if progress.stage == from {
            self.change(&mut progress.stage, next);
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        self.progress.lock().stage
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let stage = self.progress.get_mut().stage;
        self.slot.change(|uses| {
            uses.stages[stage as usize] -= 1;
            uses.is_served = true;
        });
    }
}

#[cfg(test)]
mod tests;
