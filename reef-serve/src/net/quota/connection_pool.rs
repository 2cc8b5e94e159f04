//! Places for connections of gRPC and HTTP: a pool for each way in, of which a principal has a
//! part.
//!
//! A full pool takes its place from a connection that does nothing with it, before it refuses one:
//! the oldest that has not shown who it is; the oldest whose request doesn't arrive; or else the
//! one without a request for the longest time, of the principal that has the most. So a place is
//! not kept by being there, nor by half a request, and no request that has arrived is cut off.
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

/// A connection that had no request for less than this is in use.
const IDLE: Duration = Duration::from_millis(500);

/// How long a connection has at least to show who it is.
const YOUNG: Duration = Duration::from_millis(50);

/// How long a request may take to arrive where places are wanted, of a connection that had none
/// before and of others.
const ARRIVAL: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];

/// The pool of one way in.
#[derive(Debug)]
pub(crate) struct Places {
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
    /// Requests that are not answered, and those of them that have not arrived whole.
    open: usize,
    arriving: usize,
    /// Whether a request of it has ended.
    is_served: bool,
    /// When the last request ended, or the first of those that are open began.
    since: Instant,
    /// Dropped when the place is taken away.
    _keep: oneshot::Sender<Infallible>,
}

/// Completes when a connection has lost its place.
pub(crate) type Lost = oneshot::Receiver<Infallible>;

impl Places {
    pub(crate) fn new(max: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { max, each, table: Mutex::default() })
    }

    /// A place for a connection of `principal`, which has proven who it is or may do so later.
    ///
    /// # Errors
    ///
    /// `Exhausted` if all places that it might have are in use.
    pub(crate) fn enter(
        self: &Arc<Self>,
        principal: Principal,
        is_proven: bool,
    ) -> Result<(Place, Lost)> {
        let mut table = self.table.lock();
        if !is_proven && table.count(|entry| !entry.is_proven) >= (self.max / 4).max(1) {
            table.take_away(Entry::is_unproven); // or all of them have only just come
        }
        self.make_room_of(&mut table, &principal)?;
        self.make_room(&mut table, &principal)?;
        let (keep, lost) = oneshot::channel();
        let (since, id) = (Instant::now(), table.next);
        let (open, arriving, is_served) = (0, 0, false);
        table.next += 1;
        let entry = Entry { principal, is_proven, open, arriving, is_served, since, _keep: keep };
        table.taken.insert(id, entry);
        Ok((Place { places: self.clone(), id }, lost))
    }

    /// Sees to it that `principal` may have one more.
    fn make_room_of(&self, table: &mut Table, principal: &Principal) -> Result<()> {
        let each = self.each;
        if table.of(principal) < each
            || table.take_away(|entry| entry.is_idle_of(principal))
            || table.take_away(|entry| entry.principal == *principal && entry.is_unfinished())
        {
            return Ok(());
        }
        Err(Error::Exhausted(format!("{principal} has {each} connections, all in use: no more")))
    }

    /// Sees to it that there is one more.
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
        Err(Error::Exhausted(format!("{max} connections are open already")))
    }
}

impl Table {
    fn count(&self, is: impl Fn(&Entry) -> bool) -> usize {
        self.taken.values().filter(|entry| is(entry)).count()
    }

    fn of(&self, principal: &Principal) -> usize {
        self.count(|entry| entry.principal == *principal)
    }

    /// Who has the most places, and how many.
    fn greatest(&self) -> Option<(Principal, usize)> {
        let each = self.taken.values().map(|entry| &entry.principal);
        let most = each.max_by_key(|principal| self.of(principal))?;
        Some((most.clone(), self.of(most)))
    }

    /// Takes the place of the one among those that `is` means which has been so for the longest.
    fn take_away(&mut self, is: impl Fn(&Entry) -> bool) -> bool {
        let those = self.taken.iter().filter(|(_, entry)| is(entry));
        let oldest = those.min_by_key(|(_, entry)| entry.since).map(|(id, _)| *id);
        oldest.and_then(|id| self.taken.remove(&id)).is_some()
    }
}

impl Entry {
    /// Whether it has had time to show who it is.
    fn is_unproven(&self) -> bool {
        self.open == 0 && !self.is_proven && self.since.elapsed() >= YOUNG
    }

    /// Whether all that it asks for has had time to arrive, and hasn't.
    fn is_unfinished(&self) -> bool {
        let time = ARRIVAL[usize::from(self.is_served)];
        self.open > 0 && self.arriving == self.open && self.since.elapsed() >= time
    }

    fn is_idle_of(&self, principal: &Principal) -> bool {
        let is_idle = self.open == 0 && self.is_proven && self.since.elapsed() >= IDLE;
        self.principal == *principal && (is_idle || self.is_unproven())
    }
}

/// A connection's place, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    id: u64,
}

impl Place {
    /// A request of `principal` has come, which is now known: the connection is its from now on.
    ///
    /// # Errors
    ///
    /// `Exhausted` if the place was taken away, or that principal has as many in use as it may
    /// have.
    pub(crate) fn begin(self: &Arc<Self>, principal: &Principal) -> Result<InUse> {
        let mut table = self.places.table.lock();
        let lost = || Error::Exhausted("this connection's place was needed for another".into());
        if table.taken.get(&self.id).ok_or_else(lost)?.principal != *principal {
            self.places.make_room_of(&mut table, principal)?;
        }
        let entry = table.taken.get_mut(&self.id).ok_or_else(lost)?;
        if entry.open == 0 {
            entry.since = Instant::now();
        }
        entry.open += 1;
        entry.is_proven = true;
        entry.principal = principal.clone();
        Ok(InUse(self.clone()))
    }
}

impl Place {
    /// Changes what is known of the connection, if it still has its place.
    fn change(&self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.places.table.lock().taken.get_mut(&self.id) {
            change(entry);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table.lock().taken.remove(&self.id);
    }
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Place>);

impl InUse {
    /// Notes that the request has not arrived whole, until this is dropped.
    pub(crate) fn arriving(&self) -> Arriving {
        self.0.change(|entry| entry.arriving += 1);
        Arriving(self.0.clone())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.change(|entry| {
            entry.open -= 1;
            entry.is_served = true;
            entry.since = Instant::now();
        });
    }
}

/// A request that has not arrived whole.
#[derive(Debug)]
pub(crate) struct Arriving(Arc<Place>);

impl Drop for Arriving {
    fn drop(&mut self) {
        self.0.change(|entry| entry.arriving -= 1);
    }
}

#[cfg(test)]
mod tests;
