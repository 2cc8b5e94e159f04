//! The list of sessions.

use super::refusal::Refusal;
use crate::migration::session::Migrate;
use parking_lot::Mutex;
use reef_wire::Traffic;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time within which a session says what it has done. Without an answer it is the last one.
const STATUS_TIMEOUT: Duration = Duration::from_millis(300);

/// Owner of a session's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A process of its own, for a program that uses the CUDA driver.
    Program,
    /// The server's dispatcher, which all sessions share.
    Shared,
    /// The session alone.
    Own,
}

impl Kind {
    /// Label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Shared => "shared",
            Self::Own => "own",
        }
    }
}

/// Facts of a session, which do not change.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    /// Owner of its device.
    pub kind: Kind,
    /// Name of its client's token.
    pub tenant: Option<String>,
    /// Name of its client's program, as the client says it.
    pub program: String,
    /// Device that it asked for.
    pub device: Option<String>,
    /// Number of its process on this machine.
    pub pid: Option<u32>,
    /// Class of that process as a guest: `rt` or `be`.
    pub class: Option<String>,
}

/// Numbers of a session up to now.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SessionCounts {
    /// Its client's end: `HOST:PORT`, or `pid NUMBER` of this machine.
    pub peer: String,
    /// Bytes of the device's memory that its client has allocated.
    pub memory_bytes: u64,
    /// Frames and bytes to and fro.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Calls that came by themselves; `None`: nothing counts them.
    pub single_calls: Option<u64>,
    /// Calls that came in records of replayed calls.
    pub replayed_calls: Option<u64>,
}

/// A session that can be looked at and ended.
pub trait Watched: Debug + Send + Sync {
    /// Asks it for a new answer, if that takes time. Doesn't wait.
    fn ask(&self) {}

    /// Returns what it has done. Waits for an answer until then; `None`: not at all.
    fn counts(&self, until: Option<Instant>) -> SessionCounts;

    /// Returns what moves it, if its server does.
    fn migration(&self) -> Option<Arc<dyn Migrate>> {
        None
    }

    /// Ends it, and tells its client why. Doesn't wait.
    fn end(&self, why: &str);
}

/// A session, its number in this server, and its age.
#[derive(Debug, Clone, Serialize)]
pub struct SessionView {
    /// Number.
    pub id: u64,
    /// Seconds since it began.
    pub age_seconds: f64,
    /// Facts.
    #[serde(flatten)]
    pub facts: Facts,
    /// Numbers up to now.
    #[serde(flatten)]
    pub counts: SessionCounts,
}

/// Sums of all sessions of a kind that have ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) begun: u64,
    pub(super) traffic: Traffic,
    pub(super) reconnects: u64,
    pub(super) single_calls: u64,
    pub(super) replayed_calls: u64,
}

impl Sums {
    /// Adds what a session says, which may be the word of a process in its client's hand.
    pub(super) fn add(&mut self, counts: &SessionCounts) {
        let (sum, of) = (&mut self.traffic, &counts.traffic);
        for (sum, more) in [
            (&mut sum.received_frames, of.received_frames),
            (&mut sum.received_bytes, of.received_bytes),
            (&mut sum.sent_frames, of.sent_frames),
            (&mut sum.sent_bytes, of.sent_bytes),
            (&mut sum.replies, of.replies),
            (&mut self.reconnects, of.connections.saturating_sub(1)),
            (&mut self.single_calls, counts.single_calls.unwrap_or(0)),
            (&mut self.replayed_calls, counts.replayed_calls.unwrap_or(0)),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

#[derive(Debug)]
struct Entry {
    facts: Facts,
    begun: Instant,
    session: Arc<dyn Watched>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    open: BTreeMap<u64, Entry>,
    sums: BTreeMap<Kind, Sums>,
    refused: BTreeMap<Refusal, u64>,
}

/// Sessions of a server. Cloning is cheap, and each clone has the same sessions.
#[derive(Debug, Clone, Default)]
pub struct Sessions(Arc<Mutex<State>>);

impl Sessions {
    /// Adds a session, which is there as long as the registration. Control characters in the name
    /// of its program are replaced: the client writes it, and an operator's terminal shows it.
    #[must_use]
    pub fn begin(&self, mut facts: Facts, session: Arc<dyn Watched>) -> Registration {
        let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        facts.program = facts.program.chars().map(shown).collect();
        let mut state = self.0.lock();
        state.last += 1;
        let id = state.last;
        state.sums.entry(facts.kind).or_default().begun += 1;
        state.open.insert(id, Entry { facts, begun: Instant::now(), session });
        Registration { id, sessions: self.clone() }
    }

    /// Counts a client that gets no session.
    pub fn refuse(&self, why: Refusal) {
        *self.0.lock().refused.entry(why).or_default() += 1;
    }

    /// Returns all sessions, in the order in which they began. Waits for their answers for 0.3 s
    /// at most.
    pub fn list(&self) -> Vec<SessionView> {
        let open = |(id, entry): (&u64, &Entry)| {
            (*id, entry.begun, entry.facts.clone(), entry.session.clone())
        };
        let open: Vec<_> = self.0.lock().open.iter().map(open).collect();
        open.iter().for_each(|(.., session)| session.ask());
        let until = Some(Instant::now() + STATUS_TIMEOUT);
        let view = |(id, begun, facts, session): (u64, Instant, Facts, Arc<dyn Watched>)| {
            let age_seconds = begun.elapsed().as_secs_f64();
            SessionView { id, age_seconds, facts, counts: session.counts(until) }
        };
        open.into_iter().map(view).collect()
    }

    /// Ends a session, whose client is told why. Returns whether there is one of this number.
    /// Doesn't wait until it is gone.
    pub fn end(&self, id: u64, why: &str) -> bool {
        let session = self.0.lock().open.get(&id).map(|entry| entry.session.clone());
        session.iter().for_each(|session| session.end(why));
        session.is_some()
    }

    /// Returns what moves and writes a session.
    ///
    /// # Errors
    ///
    /// There is no session of this number, or its own process moves it.
    pub fn migration(&self, id: u64) -> Result<Arc<dyn Migrate>, String> {
        let known = self.0.lock().open.get(&id).map(|of| (of.session.clone(), of.facts.pid));
        let (session, worker) = known.ok_or_else(|| format!("session {id}: there is none"))?;
        session.migration().ok_or_else(|| match worker {
            Some(worker) => format!("session {id}: must be named by its worker, {worker}"),
            None => format!("session {id}: does not move"),
        })
    }

    /// Sums by kind, with those of the open sessions in the list, and refused clients.
    pub(super) fn sums(&self, open: &[SessionView]) -> (BTreeMap<Kind, Sums>, Vec<(Refusal, u64)>) {
        let state = self.0.lock();
        let mut sums = state.sums.clone();
        // A session that has ended since is in the sums already.
        for view in open.iter().filter(|view| state.open.contains_key(&view.id)) {
            sums.entry(view.facts.kind).or_default().add(&view.counts);
        }
        let count = |of: Refusal| (of, state.refused.get(&of).copied().unwrap_or(0));
        (sums, Refusal::ALL.map(count).to_vec())
    }
}

/// Place of a session in the list. Dropping it removes the session.
#[derive(Debug)]
pub struct Registration {
    id: u64,
    sessions: Sessions,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let session = self.sessions.0.lock().open.get(&self.id).map(|entry| entry.session.clone());
        // Outside of the lock, as a session may have locks of its own.
        let counts = session.map(|session| session.counts(None)).unwrap_or_default();
        let mut state = self.sessions.0.lock();
        let entry = state.open.remove(&self.id);
        if let Some(entry) = &entry {
            state.sums.entry(entry.facts.kind).or_default().add(&counts);
        }
        drop(state);
        drop(entry);
    }
}
