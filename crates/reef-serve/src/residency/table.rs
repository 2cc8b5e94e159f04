//! Table of all processes that are on the GPU on demand.

use super::entry::{Entry, Id, Target};
use super::facts::{Facts, Held, Residency, ResidencyState, StartKind};
use crate::error::Error;
use crate::suspend::suspensions::Suspender;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// Time from a failed return to the next try.
const RETURN_PAUSE: Duration = Duration::from_millis(500);

/// Bounds of the time from a refused departure to the next try, which is `idle` between them. A try
/// pauses the program, and a long `idle` says nothing about the reason of a refusal.
const MIN_LEAVE_PAUSE: Duration = Duration::from_millis(500);
const MAX_LEAVE_PAUSE: Duration = Duration::from_secs(30);

const MIB: u64 = 1 << 20;

/// Number of failed returns in a row after which a process is lost.
const MAX_FAILED_RETURNS: u32 = 5;

/// All processes.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) entries: BTreeMap<Id, Entry>,
    last_id: Id,
    last_turn: u64,
    /// True if the bytes of all resident processes are to be counted again.
    pub(super) counts_again: bool,
    /// Last time at which that was so.
    pub(super) counted: Option<Instant>,
    /// Maximum bytes of the host's memory for processes that are off the GPU. `None`: no maximum.
    pub(super) max_away: Option<u64>,
}

impl Table {
    /// Adds a process that has not been started.
    pub(super) fn add(&mut self, facts: Facts, now: Instant) -> Id {
        self.last_id += 1;
        self.entries.insert(self.last_id, Entry::new(facts, now));
        self.last_id
    }

    pub(super) fn remove(&mut self, id: Id) {
        self.entries.remove(&id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the state of all processes.
    pub(super) fn all(&self) -> Vec<Residency> {
        self.entries.values().map(Entry::view).collect()
    }

    pub(super) fn title(&self, id: Id) -> String {
        self.entries.get(&id).map(|entry| entry.facts.title.to_string()).unwrap_or_default()
    }

    pub(super) fn state_of(&self, id: Id) -> ResidencyState {
        self.entries.get(&id).map_or(ResidencyState::Absent, |entry| entry.state)
    }

    /// True if a process works on a request, and leaves for another one afterwards.
    pub(super) fn must_leave(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.must_leave)
    }

    pub(super) fn pid(&self, id: Id) -> Option<u32> {
        self.entries.get(&id)?.pid
    }

    fn of_model<'a>(&'a self, model: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.values().filter(move |entry| entry.facts.name.model == model)
    }

    /// True if a process is one of a model that an operator keeps off its device.
    pub(super) fn is_dismissed(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.is_dismissed)
    }

    /// True if a model has processes, and an operator keeps all of them off their device.
    pub(super) fn is_model_dismissed(&self, model: &str) -> bool {
        let mut all = self.of_model(model).peekable();
        all.peek().is_some() && all.all(|entry| entry.is_dismissed)
    }

    /// Has all processes of a model leave and stay away, or ends that. Returns `false` if it has
    /// none.
    pub(super) fn set_dismissed(&mut self, model: &str, is_dismissed: bool) -> bool {
        let of_model = |entry: &&mut Entry| entry.facts.name.model == model;
        for entry in self.entries.values_mut().filter(of_model) {
            entry.is_dismissed = is_dismissed;
            if is_dismissed && entry.state == ResidencyState::Resident {
                entry.not_before = None; // the next try need not wait
            }
        }
        self.of_model(model).next().is_some()
    }

    /// True if no process of a model is on its device.
    pub(super) fn has_left(&self, model: &str) -> bool {
        let is_off = |entry: &Entry| {
            let is_away = matches!(entry.state, ResidencyState::Absent | ResidencyState::Away);
            is_away || entry.is_suspended
        };
        self.of_model(model).all(is_off)
    }

    /// Returns all processes that run.
    pub(super) fn targets(&self) -> Vec<Target> {
        let each = self.entries.iter();
        each.filter_map(|(&id, entry)| Some(Target { id, pid: entry.pid? })).collect()
    }

    /// True if a process waits for room.
    pub(super) fn has_turns(&self) -> bool {
        self.entries.values().any(|entry| entry.turn.is_some())
    }

    /// True if a process does not return any more.
    pub(super) fn is_lost(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.failed_returns >= MAX_FAILED_RETURNS)
    }

    fn take_turn(&mut self, id: Id) {
        let next = self.last_turn + 1;
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.turn.is_none()
        {
            entry.turn = Some(next);
            self.last_turn = next;
        }
    }

    /// Begins the start of a process, which waits for room.
    pub(super) fn begin_start(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.state = ResidencyState::Starting;
            (entry.is_admitted, entry.not_before, entry.turn) = (false, None, None);
        }
        self.take_turn(id);
    }

    /// True if a process may start: it has room, or does not wait for it any more.
    pub(super) fn may_start(&self, id: Id) -> bool {
        self.entries.get(&id).is_none_or(|entry| entry.is_admitted)
    }

    /// Notes that a process is ready.
    pub(super) fn note_start(&mut self, id: Id, pid: u32, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            (entry.state, entry.pid, entry.used) = (ResidencyState::Resident, Some(pid), now);
            (entry.turn, entry.is_admitted) = (None, false);
            (entry.has_answered, entry.must_leave, entry.is_suspended) = (false, false, false);
            (entry.not_before, entry.failed_returns) = (None, 0);
        }
    }

    /// Counts a start, which took this time.
    pub(super) fn count_start(&mut self, id: Id, kind: StartKind, time: Duration) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let starts = &mut entry.starts[kind as usize];
            starts.count += 1;
            starts.time = starts.time.saturating_add(time);
        }
    }

    /// Has a process stay as it is, without a request, unless one needs it or another process does.
    /// Returns whether it does: to write one takes the disk and half of the processors.
    pub(super) fn try_freeze(&mut self, id: Id) -> bool {
        if self.entries.values().any(|entry| entry.is_frozen) {
            return false;
        }
        match self.entries.get_mut(&id) {
            Some(entry) if entry.may_be_frozen() => {
                entry.is_frozen = true;
                true
            }
            _ => false,
        }
    }

    /// Has a process move and be used again.
    pub(super) fn end_freeze(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_frozen = false;
        }
    }

    /// Notes that a process has ended, or was not started.
    pub(super) fn note_end(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            (entry.state, entry.pid, entry.turn) = (ResidencyState::Absent, None, None);
            (entry.is_admitted, entry.must_leave, entry.is_suspended) = (false, false, false);
            (entry.not_before, entry.failed_returns) = (None, 0);
        }
    }

    /// Has a request use a process. Returns `false` if it must wait for the return.
    pub(super) fn try_use(&mut self, id: Id) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return true };
        let is_there = match entry.state {
            // The request waits for the start.
            ResidencyState::Absent | ResidencyState::Starting => true,
            ResidencyState::Resident => !entry.must_leave && !entry.is_frozen,
            ResidencyState::Leaving | ResidencyState::Away | ResidencyState::Returning => false,
        };
        entry.is_awaited = !is_there;
        if !is_there {
            self.take_turn(id);
            return false;
        }
        entry.uses += 1;
        entry.is_used = true;
        if entry.state == ResidencyState::Resident {
            entry.turn = None;
        }
        true
    }

    /// Counts a request that waits.
    pub(super) fn begin_wait(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.waiters += 1;
        }
    }

    /// Counts a request that waits no longer.
    pub(super) fn note_waited(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.waiters = entry.waiters.saturating_sub(1);
            entry.is_awaited |= entry.waiters > 0;
        }
    }

    /// Ends the wait, unless another request waits.
    pub(super) fn end_wait(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.waiters == 0
        {
            entry.is_awaited = false;
            if entry.state != ResidencyState::Starting {
                entry.turn = None;
            }
        }
    }

    pub(super) fn end_use(&mut self, id: Id, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.uses = entry.uses.saturating_sub(1);
            (entry.is_used, entry.has_answered, entry.used) = (entry.uses > 0, true, now);
        }
    }

    /// Counts a client that keeps a network on its device.
    pub(super) fn begin_keep(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.clients += 1;
            entry.must_leave = false;
        }
    }

    /// Ends the stay of a client.
    pub(super) fn end_keep(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.clients = entry.clients.saturating_sub(1);
        }
    }

    /// Counts a real-time request of a network.
    pub(super) fn begin_real_time(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.real_time += 1;
        }
    }

    /// Ends a real-time request of a network.
    pub(super) fn end_real_time(&mut self, id: Id, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.real_time = entry.real_time.saturating_sub(1);
            entry.real_time_used = Some(now);
        }
    }

    /// Notes the bytes that a network has, or needs before it is there.
    pub(super) fn note_needs(&mut self, id: Id, held: Held) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.held = Some(held).filter(|held| !held.is_empty());
        }
    }

    /// Has a process that does not return be tried again.
    pub(super) fn forget_failures(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.failed_returns = 0;
        }
    }

    /// Notes the cause of a process's suspension. One that an operator has brought back is
    /// resident.
    pub(super) fn note_suspender(&mut self, id: Id, by: Option<Suspender>, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.is_suspended = matches!(by, Some(Suspender::Operator | Suspender::Memory));
        if entry.state == ResidencyState::Away && by.is_none() {
            (entry.state, entry.used, entry.turn) = (ResidencyState::Resident, now, None);
        }
    }

    /// Notes the bytes of a resident process.
    pub(super) fn note_bytes(&mut self, target: Target, held: Held) {
        if let Some(entry) = self.entry(target)
            && !held.is_empty()
        {
            entry.held = Some(held);
        }
    }

    fn entry(&mut self, target: Target) -> Option<&mut Entry> {
        self.entries.get_mut(&target.id).filter(|entry| entry.pid == Some(target.pid))
    }

    /// Notes the end of a departure: the bytes that the process had. `None`: it stays. Returns
    /// `true` if that is to be logged.
    pub(super) fn note_leave(&mut self, target: Target, held: Option<Held>, now: Instant) -> bool {
        let Some(entry) = self.entry(target) else { return false };
        if entry.state != ResidencyState::Leaving {
            return false;
        }
        entry.must_leave = false;
        match held {
            Some(held) => {
                (entry.state, entry.not_before) = (ResidencyState::Away, None);
                entry.held = Some(held).filter(|held| !held.is_empty());
                entry.is_refusal_logged = false;
                true
            }
            None => {
                entry.state = ResidencyState::Resident;
                let pause = entry.facts.idle.clamp(MIN_LEAVE_PAUSE, MAX_LEAVE_PAUSE);
                let pause = if entry.is_dismissed { MIN_LEAVE_PAUSE } else { pause };
                entry.not_before = Some(now + pause);
                !std::mem::replace(&mut entry.is_refusal_logged, true)
            }
        }
    }

    /// Returns the reason for which a process stays, if its memory would be too much with that of
    /// all that are off the GPU. `returner` comes back meanwhile.
    pub(super) fn away_refusal(&self, leaver: Id, returner: Option<Id>) -> Option<Error> {
        let max = self.max_away?;
        let own = self.entries.get(&leaver).filter(|entry| !entry.is_network())?.bytes();
        let moves = |id: Id| id == leaver || Some(id) == returner;
        let others = self.entries.iter().filter(|(id, entry)| !moves(**id) && entry.is_in_host());
        let bytes = others.map(|(_, entry)| entry.bytes().unwrap_or(0));
        let taken = bytes.fold(0_u64, u64::saturating_add);
        let own = own.unwrap_or(0); // not known: counted once it has left
        if taken.saturating_add(own) <= max {
            return None;
        }
        let [max, taken, own] = [max, taken, own].map(|bytes| bytes.div_ceil(MIB));
        Some(Error::Unavailable(format!(
            "host memory of programs off the GPU must be at most {max} MiB (memory.away_mib), got {taken} + {own}"
        )))
    }

    /// Returns the bytes of a process, as they were counted last; none if they are not known.
    pub(super) fn held(&self, id: Id) -> Held {
        self.entries.get(&id).and_then(|entry| entry.held.clone()).unwrap_or_default()
    }

    /// Notes the end of a return for which no room was made: the process is still away, and waits
    /// for the room of another one.
    pub(super) fn note_no_room(&mut self, target: Target) {
        if let Some(entry) = self.entry(target)
            && entry.state == ResidencyState::Returning
        {
            entry.state = ResidencyState::Away;
        }
    }

    /// Notes the end of a return, and its time. `None`: the process is still away.
    pub(super) fn note_return(&mut self, target: Target, time: Option<Duration>, now: Instant) {
        let Some(entry) = self.entry(target) else { return };
        if entry.state != ResidencyState::Returning {
            return;
        }
        match time {
            Some(time) => {
                (entry.state, entry.used, entry.turn) = (ResidencyState::Resident, now, None);
                (entry.has_answered, entry.failed_returns) = (false, 0);
                (entry.not_before, entry.returned) = (None, Some(SystemTime::now()));
                entry.returns += 1;
                entry.return_time = entry.return_time.saturating_add(time);
            }
            None => {
                entry.state = ResidencyState::Away;
                entry.not_before = Some(now + RETURN_PAUSE);
                entry.failed_returns += 1;
            }
        }
    }
}
