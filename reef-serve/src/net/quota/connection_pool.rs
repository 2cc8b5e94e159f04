//! Pool of slots for connections of gRPC and HTTP, one for each kind of endpoint, with a quota for
//! each principal.
//!
//! Before a full pool refuses a connection, it evicts one that makes no use of its slot. The order
//! is: the oldest unauthenticated one; the oldest whose request does not arrive; the one that has
//! been idle for the longest time, of the principal with the most slots. So neither an open
//! connection nor half a request keeps a slot, and a request that has arrived is never cut off.
//!
//! ```text
//! of one principal ≤ each,    of all ≤ max
//! ```

use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A connection is in use for this long after its last request.
const IDLE_TIMEOUT: Duration = Duration::from_millis(500);

/// Time that a connection has at least to authenticate itself.
const PROOF_TIMEOUT: Duration = Duration::from_millis(50);

/// Time that a request has to arrive while slots are needed: the first one of a connection, and any
/// later one.
const ARRIVAL_TIMEOUTS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];

/// Pool of one kind of endpoint.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    max: usize,
    each: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// By age.
    taken: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    principal: Principal,
    is_proven: bool,
    /// Requests without a complete answer, and those of them that have not arrived completely.
    open: usize,
    arriving: usize,
    /// True if one of its requests has ended.
    is_served: bool,
    /// Time at which the last request ended, or the first open one began.
    since: Instant,
    /// Dropped when the slot is taken away.
    _keep: oneshot::Sender<Infallible>,
}

/// Completes when a connection has lost its slot.
pub(crate) type SlotLoss = oneshot::Receiver<Infallible>;

impl ConnectionPool {
    pub(crate) fn new(max: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { max, each, table: Mutex::default() })
    }

    /// Returns a slot for a connection of `principal`, which is authenticated or may become so
    /// later.
    ///
    /// # Errors
    ///
    /// `Exhausted` if all slots that it may have are in use.
    pub(crate) fn enter(
        self: &Arc<Self>,
        principal: Principal,
        is_proven: bool,
    ) -> Result<(ConnectionSlot, SlotLoss)> {
        let mut table = self.table.lock();
        if !is_proven && table.count(|entry| !entry.is_proven) >= (self.max / 4).max(1) {
            table.take_away(Entry::is_unproven); // none if all of them have only just come
        }
        self.make_room_of(&mut table, &principal)?;
        self.make_room(&mut table, &principal)?;
        let (keep, lost) = oneshot::channel();
        let (since, id) = (Instant::now(), table.next);
        let (open, arriving, is_served) = (0, 0, false);
        table.next += 1;
        let entry = Entry { principal, is_proven, open, arriving, is_served, since, _keep: keep };
        table.taken.insert(id, entry);
        Ok((ConnectionSlot { pool: self.clone(), id }, lost))
    }

    /// Makes room for one more connection of `principal`.
    fn make_room_of(&self, table: &mut Table, principal: &Principal) -> Result<()> {
        let each = self.each;
        if table.of(principal) < each
            || table.take_away(|entry| entry.is_idle_of(principal))
            || table.take_away(|entry| entry.principal == *principal && entry.is_unfinished())
        {
            return Ok(());
        }
        Err(Error::Exhausted(format!(
            "connections of {principal} must be at most {each}: all are in use"
        )))
    }

    /// Makes room for one more connection.
    fn make_room(&self, table: &mut Table, principal: &Principal) -> Result<()> {
        let max = self.max;
        if table.taken.len() < max
            || table.take_away(Entry::is_unproven)
            || table.take_away(|entry| !entry.is_served && entry.is_unfinished())
            || table.take_away(Entry::is_unfinished)
        {
            return Ok(());
        }
        let greatest = table.greatest().filter(|(_, has)| *has > table.of(principal));
        if greatest.is_some_and(|(most, _)| table.take_away(|entry| entry.is_idle_of(&most))) {
            return Ok(());
        }
        Err(Error::Exhausted(format!("open connections must be at most {max}: all are in use")))
    }
}

impl Table {
    fn count(&self, is: impl Fn(&Entry) -> bool) -> usize {
        self.taken.values().filter(|entry| is(entry)).count()
    }

    fn of(&self, principal: &Principal) -> usize {
        self.count(|entry| entry.principal == *principal)
    }

    /// Returns the principal with the most slots, and their number.
    fn greatest(&self) -> Option<(Principal, usize)> {
        let each = self.taken.values().map(|entry| &entry.principal);
        let most = each.max_by_key(|principal| self.of(principal))?;
        Some((most.clone(), self.of(most)))
    }

    /// Takes the slot of the connection that has met `is` for the longest time.
    fn take_away(&mut self, is: impl Fn(&Entry) -> bool) -> bool {
        let matching = self.taken.iter().filter(|(_, entry)| is(entry));
        let oldest = matching.min_by_key(|(_, entry)| entry.since).map(|(id, _)| *id);
        oldest.and_then(|id| self.taken.remove(&id)).is_some()
    }
}

impl Entry {
    /// True if it has had time to authenticate itself, and has not.
    fn is_unproven(&self) -> bool {
        self.open == 0 && !self.is_proven && self.since.elapsed() >= PROOF_TIMEOUT
    }

    /// True if its requests have had time to arrive, and none has.
    fn is_unfinished(&self) -> bool {
        let time = ARRIVAL_TIMEOUTS[usize::from(self.is_served)];
        self.open > 0 && self.arriving == self.open && self.since.elapsed() >= time
    }

    fn is_idle_of(&self, principal: &Principal) -> bool {
        let is_idle = self.open == 0 && self.is_proven && self.since.elapsed() >= IDLE_TIMEOUT;
        self.principal == *principal && (is_idle || self.is_unproven())
    }
}

/// Slot of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    pool: Arc<ConnectionPool>,
    id: u64,
}

impl ConnectionSlot {
    /// Notes that a request of `principal` has begun; the connection belongs to that principal from
    /// now on.
    ///
    /// # Errors
    ///
    /// `Exhausted` if the slot was taken away, or all slots of that principal are in use.
    pub(crate) fn begin(self: &Arc<Self>, principal: &Principal) -> Result<OpenRequest> {
        let mut table = self.pool.table.lock();
        let lost =
            || Error::Exhausted("connection closed: another connection needed its slot".into());
        if table.taken.get(&self.id).ok_or_else(lost)?.principal != *principal {
            self.pool.make_room_of(&mut table, principal)?;
        }
        let entry = table.taken.get_mut(&self.id).ok_or_else(lost)?;
        if entry.open == 0 {
            entry.since = Instant::now();
        }
        entry.open += 1;
        entry.is_proven = true;
        entry.principal = principal.clone();
        Ok(OpenRequest(self.clone()))
    }
}

impl ConnectionSlot {
    /// Changes the connection's entry, if it still has its slot.
    fn change(&self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.pool.table.lock().taken.get_mut(&self.id) {
            change(entry);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.pool.table.lock().taken.remove(&self.id);
    }
}

/// A request without a complete answer.
#[derive(Debug)]
pub(crate) struct OpenRequest(Arc<ConnectionSlot>);

impl OpenRequest {
    /// Notes that the request has not arrived completely, until the guard is dropped.
    pub(crate) fn arriving(&self) -> ArrivingRequest {
        self.0.change(|entry| entry.arriving += 1);
        ArrivingRequest(self.0.clone())
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.change(|entry| {
            entry.open -= 1;
            entry.is_served = true;
            entry.since = Instant::now();
        });
    }
}

/// A request that has not arrived completely.
#[derive(Debug)]
pub(crate) struct ArrivingRequest(Arc<ConnectionSlot>);

impl Drop for ArrivingRequest {
    fn drop(&mut self) {
        self.0.change(|entry| entry.arriving -= 1);
    }
}

#[cfg(test)]
mod tests;
