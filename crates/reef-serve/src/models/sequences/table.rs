//! Sequences of a model.

use super::sequence::Sequence;
use crate::error::{Error, Result};
use crate::models::state::spec::{StateSpec, StateTensor};
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::Principal;
use crate::tensor::short;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedMutexGuard;

/// Maximum length of an id, in bytes.
const MAX_ID_LEN: usize = 128;

/// Sequences of a model on one device.
#[derive(Debug)]
pub(crate) struct Sequences {
    /// None if a program keeps the state.
    pub(crate) tensors: Vec<StateTensor>,
    idle: Duration,
    max: usize,
    all: Mutex<BTreeMap<SequenceKey, Arc<Entry>>>,
}

/// A sequence of one principal. A user is the same by a Unix socket and on loopback.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SequenceKey {
    owner: Principal,
    id: String,
}

#[derive(Debug)]
struct Entry {
    /// Number that a process knows it by: no other entry has it.
    number: usize,
    /// Locked by the request that runs.
    sequence: Arc<tokio::sync::Mutex<Sequence>>,
    used: Mutex<Instant>,
}

/// A sequence while one of its requests runs.
#[derive(Debug)]
pub(crate) struct RunningSequence {
    pub(crate) sequence: OwnedMutexGuard<Sequence>,
    entry: Arc<Entry>,
}

impl SequenceKey {
    /// Returns the key of a sequence of `peer`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the id is too long.
    pub(crate) fn new(peer: &Peer, id: &str) -> Result<Self> {
        if id.len() > MAX_ID_LEN {
            let text = format!(
                "parameter sequence_id: must have at most {MAX_ID_LEN} bytes, got {:?} of {}",
                short(id),
                id.len()
            );
            return Err(Error::Invalid(text));
        }
        let user = peer.principal.uid().map(Principal::User);
        Ok(Self { owner: user.unwrap_or_else(|| peer.principal.clone()), id: id.into() })
    }
}

impl Sequences {
    pub(crate) fn new(spec: &StateSpec, tensors: Vec<StateTensor>) -> Self {
        Self { tensors, idle: spec.idle, max: spec.max, all: Mutex::default() }
    }

    /// Maximum number of sequences.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// True if this replica has the state of a sequence.
    pub(crate) fn has(&self, key: &SequenceKey) -> bool {
        self.all.lock().contains_key(key)
    }

    /// Waits for the requests of the sequence that came before, and returns it. Creates it if
    /// `starts`; one principal may have at most `part` of them.
    ///
    /// # Errors
    ///
    /// `Exhausted` if there are too many; `Invalid` if it has not been started.
    pub(crate) async fn enter(
        &self,
        key: &SequenceKey,
        starts: bool,
        part: usize,
    ) -> Result<RunningSequence> {
        let entry = self.entry(key, starts, part)?;
        let sequence = entry.sequence.clone().lock_owned().await;
        if !starts && !sequence.is_started() {
            return Err(self.not_started(key));
        }
        *entry.used.lock() = Instant::now();
        Ok(RunningSequence { sequence, entry })
    }

    fn entry(&self, key: &SequenceKey, starts: bool, part: usize) -> Result<Arc<Entry>> {
        let mut all = self.all.lock();
        if let Some(entry) = all.get(key) {
            return Ok(entry.clone());
        }
        if !starts {
            return Err(self.not_started(key));
        }
        drop_idle(&mut all, self.idle);
        let own = all.keys().filter(|other| other.owner == key.owner).count();
        if all.len() >= self.max || own >= part {
            return Err(self.too_many((own >= part).then_some(part)));
        }
        let (number, used) = (free_number(&all), Mutex::new(Instant::now()));
        let entry = Arc::new(Entry { number, sequence: Arc::default(), used });
        all.insert(key.clone(), entry.clone());
        Ok(entry)
    }

    /// Refusal of one more sequence of a principal that has its `part`, or of any other.
    fn too_many(&self, part: Option<usize>) -> Error {
        let max = self.max;
        let (whose, most) = match part.filter(|&part| part < max) {
            Some(part) => (format!("one principal, limits.principal_percent of {max},"), part),
            None => ("the model".into(), max),
        };
        Error::Exhausted(format!("sequences of {whose} must be at most {most}: end one first"))
    }

    fn not_started(&self, key: &SequenceKey) -> Error {
        Error::Invalid(format!(
            "sequence {:?}: must begin with sequence_start: it has ended, was unused for {:?}, or \
             its device was lost",
            short(&key.id),
            self.idle
        ))
    }

    /// Drops sequences that have ended, or were unused for too long.
    pub(crate) fn expire(&self) {
        let gone = drop_idle(&mut self.all.lock(), self.idle);
        drop(gone); // without the lock
    }

    /// Drops all sequences.
    pub(crate) fn clear(&self) {
        self.all.lock().clear();
    }
}

/// Returns the lowest number from 1 that no entry has, so that a program which keeps state by
/// numbers keeps a bounded amount of it.
fn free_number(all: &BTreeMap<SequenceKey, Arc<Entry>>) -> usize {
    let mut is_used = vec![false; all.len() + 1];
    for entry in all.values() {
        if let Some(used) = is_used.get_mut(entry.number - 1) {
            *used = true;
        }
    }
    1 + is_used.iter().position(|used| !used).unwrap_or(all.len())
}

/// Removes entries that no request uses and that have ended or were unused for `idle`.
fn drop_idle(all: &mut BTreeMap<SequenceKey, Arc<Entry>>, idle: Duration) -> Vec<Arc<Entry>> {
    let now = Instant::now();
    let is_gone = |entry: &Arc<Entry>| {
        let is_old = now.saturating_duration_since(*entry.used.lock()) >= idle;
        let has_ended = entry.sequence.try_lock().is_ok_and(|sequence| !sequence.is_started());
        Arc::strong_count(entry) == 1 && (is_old || has_ended)
    };
    all.extract_if(.., |_, entry| is_gone(entry)).map(|(_, entry)| entry).collect()
}

impl RunningSequence {
    /// Returns the number that a process knows it by.
    pub(crate) fn number(&self) -> usize {
        self.entry.number
    }

    /// Notes that its request has ended, so that it is unused from now on.
    pub(crate) fn leave(self) {
        *self.entry.used.lock() = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_number_is_the_lowest_one() {
        let mut all = BTreeMap::new();
        for id in ["a", "b", "c"] {
            let key = SequenceKey { owner: Principal::User(1), id: id.into() };
            let (number, used) = (free_number(&all), Mutex::new(Instant::now()));
            all.insert(key, Arc::new(Entry { number, sequence: Arc::default(), used }));
        }
        assert!(all.values().map(|entry| entry.number).eq([1, 2, 3]));
        all.retain(|key, _| key.id != "b");
        assert_eq!(free_number(&all), 2);
        all.retain(|key, _| key.id != "a");
        assert_eq!(free_number(&all), 1);
    }
}
