//! Places for connections of gRPC and HTTP: a pool for each way in, of which a principal has a part.
//!
//! A full pool takes its place from a connection that does nothing with it, before it refuses one: the oldest
//! that has not shown who it is, or else the one without a request for the longest time, of the principal that
//! has the most. So nobody keeps a place by being there, and nobody's requests are cut off.
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
    /// Requests that are not answered.
    open: usize,
    /// When the last request ended.
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
        let (open, since) = (0, Instant::now());
        let id = table.next;
        table.next += 1;
        table.taken.insert(id, Entry { principal, is_proven, open, since, _keep: keep });
        Ok((Place { places: self.clone(), id }, lost))
    }

    /// Sees to it that `principal` may have one more.
    fn make_room_of(&self, table: &mut Table, principal: &Principal) -> Result<()> {
        let each = self.each;
        if table.of(principal) < each || table.take_away(|entry| entry.is_idle_of(principal)) {
            return Ok(());
        }
        Err(Error::Exhausted(format!("{principal} has {each} connections, all in use: no more")))
    }

    /// Sees to it that there is one more.
    fn make_room(&self, table: &mut Table, principal: &Principal) -> Result<()> {
        let max = self.max;
        if table.taken.len() < max || table.take_away(Entry::is_unproven) {
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

    /// Takes the place of the one among those that `is` means which has been without a request for the longest.
    fn take_away(&mut self, is: impl Fn(&Entry) -> bool) -> bool {
        let those = self.taken.iter().filter(|(_, entry)| entry.open == 0 && is(entry));
        let oldest = those.min_by_key(|(_, entry)| entry.since).map(|(id, _)| *id);
        oldest.and_then(|id| self.taken.remove(&id)).is_some()
    }
}

impl Entry {
    /// Whether it has had time to show who it is.
    fn is_unproven(&self) -> bool {
        !self.is_proven && self.since.elapsed() >= YOUNG
    }

    fn is_idle_of(&self, principal: &Principal) -> bool {
        let is_idle = self.is_proven && self.since.elapsed() >= IDLE;
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
    /// `Exhausted` if the place was taken away, or that principal has as many in use as it may have.
    pub(crate) fn begin(self: &Arc<Self>, principal: &Principal) -> Result<InUse> {
        let mut table = self.places.table.lock();
        let lost = || Error::Exhausted("this connection's place was needed for another".into());
        if table.taken.get(&self.id).ok_or_else(lost)?.principal != *principal {
            self.places.make_room_of(&mut table, principal)?;
        }
        let entry = table.taken.get_mut(&self.id).ok_or_else(lost)?;
        entry.open += 1;
        entry.is_proven = true;
        entry.principal = principal.clone();
        Ok(InUse(self.clone()))
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

impl Drop for InUse {
    fn drop(&mut self) {
        let Place { places, id } = &*self.0;
        if let Some(entry) = places.table.lock().taken.get_mut(id) {
            entry.open -= 1;
            entry.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests;
