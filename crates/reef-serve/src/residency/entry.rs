//! State of one process.

use super::facts::{Facts, Held, Residency, ResidencyState, Starts, is_budget};
use crate::class::Class;
use reef_suspend::Uuid;
use std::time::{Duration, Instant, SystemTime};

/// Time without a request after which a real-time process leaves for a best-effort one.
const REST_TIME: Duration = Duration::from_secs(1);

/// Number of a process in the table.
pub(super) type Id = u64;

/// A process of the table, so that no later one in its place is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) id: Id,
    pub(super) pid: u32,
}

/// State of a process, and of its requests.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) facts: Facts,
    pub(super) state: ResidencyState,
    pub(super) pid: Option<u32>,
    /// True while a request runs, or waits for a process that starts.
    pub(super) is_used: bool,
    /// Number of these requests. A network may have several.
    pub(super) uses: usize,
    /// Number of its clients of the local endpoint, each of which keeps it on its device.
    pub(super) clients: usize,
    /// True while a request waits for its return.
    pub(super) is_awaited: bool,
    /// Number of these requests.
    pub(super) waiters: usize,
    /// Number of real-time requests of a network, which serves both classes, and the end of the
    /// last one.
    pub(super) real_time: usize,
    pub(super) real_time_used: Option<Instant>,
    /// Number among those that wait for room.
    pub(super) turn: Option<u64>,
    /// True for a start that has room.
    pub(super) is_admitted: bool,
    /// True if it has answered a request since its start or return.
    pub(super) has_answered: bool,
    /// True if it leaves as soon as its request has ended: another one has waited for longer.
    pub(super) must_leave: bool,
    /// True if an operator has suspended it, or a real-time program has its memory.
    pub(super) is_suspended: bool,
    /// True if an operator keeps its model off the device: it leaves as soon as it may.
    pub(super) is_dismissed: bool,
    /// True while it is written to a folder: it stays as it is, and has no request.
    pub(super) is_frozen: bool,
    /// End of the last request, of the start or of the return.
    pub(super) used: Instant,
    /// Time of the next try after a refusal.
    pub(super) not_before: Option<Instant>,
    pub(super) is_refusal_logged: bool,
    /// Failures in a row.
    pub(super) failed_returns: u32,
    /// Bytes that it had when they were counted last.
    pub(super) held: Option<Held>,
    pub(super) returns: u64,
    pub(super) return_time: Duration,
    pub(super) returned: Option<SystemTime>,
    pub(super) starts: [Starts; 2],
}

impl Entry {
    /// Returns a process that has not been started.
    pub(super) fn new(facts: Facts, now: Instant) -> Self {
        Self {
            facts,
            state: ResidencyState::Absent,
            pid: None,
            is_used: false,
            uses: 0,
            clients: 0,
            is_awaited: false,
            waiters: 0,
            real_time: 0,
            real_time_used: None,
            turn: None,
            is_admitted: false,
            has_answered: false,
            must_leave: false,
            is_suspended: false,
            is_dismissed: false,
            is_frozen: false,
            used: now,
            not_before: None,
            is_refusal_logged: false,
            failed_returns: 0,
            held: None,
            returns: 0,
            return_time: Duration::ZERO,
            returned: None,
            starts: [Starts::default(); 2],
        }
    }

    /// Returns its bytes on a device. `None`: not known. A process has none of a budget.
    pub(super) fn bytes_on(&self, device: Uuid) -> Option<u64> {
        let Some(held) = &self.held else { return is_budget(&device).then_some(0) };
        let there = held.iter().filter(|(of, _)| *of == device);
        Some(there.fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes)))
    }

    /// True for a network of the daemon, which takes memory of a budget.
    pub(super) fn is_network(&self) -> bool {
        self.held.iter().flatten().any(|(of, _)| is_budget(of))
    }

    /// Returns its bytes on all devices. `None`: not known.
    pub(super) fn bytes(&self) -> Option<u64> {
        let held = self.held.as_ref()?;
        let sum = |of_budgets: bool| {
            let some = held.iter().filter(|(of, _)| is_budget(of) == of_budgets);
            some.fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
        };
        Some(sum(false).max(sum(true))) // those of a budget are the same bytes
    }

    /// True if its memory is in the host's: a network has none there.
    pub(super) fn is_in_host(&self) -> bool {
        use ResidencyState::{Away, Leaving, Returning};
        let is_off = matches!(self.state, Leaving | Away | Returning) || self.is_suspended;
        is_off && !self.is_network()
    }

    /// Returns the class that decides about its departure: a network is real-time while it serves
    /// such requests, and for [`REST_TIME`] afterwards.
    pub(super) fn class(&self, now: Instant) -> Class {
        let rests = |end: Instant| now.saturating_duration_since(end) < REST_TIME;
        if self.real_time > 0 || self.real_time_used.is_some_and(rests) {
            return Class::RealTime;
        }
        self.facts.name.class
    }

    /// Returns the time since its last request; zero while one runs.
    pub(super) fn unused(&self, now: Instant) -> Duration {
        if self.is_used { Duration::ZERO } else { now.saturating_duration_since(self.used) }
    }

    /// True if it leaves for one of a class: a real-time process does not for a best-effort one,
    /// unless it has rested.
    pub(super) fn yields_to(&self, class: Class, now: Instant) -> bool {
        let is_best_effort = self.class(now) != Class::RealTime;
        is_best_effort || class == Class::RealTime || self.unused(now) >= REST_TIME
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }

    pub(super) fn is_idle(&self) -> bool {
        let is_free = !self.is_used && !self.is_awaited && self.turn.is_none();
        self.state == ResidencyState::Resident && is_free && !self.is_suspended && !self.is_frozen
    }

    /// True if no request needs it, and it is off its device: it has left, or was asked to and has
    /// no memory there, as far as is known.
    pub(super) fn may_be_frozen(&self) -> bool {
        let is_free = !self.is_used && !self.is_awaited && self.turn.is_none();
        let is_off = match self.state {
            ResidencyState::Away => true,
            ResidencyState::Resident => self.not_before.is_some() && self.held.is_none(),
            _ => false,
        };
        is_free && is_off && !self.is_suspended
    }

    /// Returns the time at which it leaves without a further request.
    pub(super) fn departure(&self) -> Instant {
        let idle = if self.is_dismissed { self.used } else { self.used + self.facts.idle };
        self.not_before.map_or(idle, |at| at.max(idle))
    }

    pub(super) fn view(&self) -> Residency {
        let bytes = match self.state {
            ResidencyState::Absent | ResidencyState::Starting => None,
            ResidencyState::Away | ResidencyState::Returning => Some(0),
            ResidencyState::Resident | ResidencyState::Leaving => self.bytes(),
        };
        Residency {
            name: self.facts.name.clone(),
            state: self.state,
            bytes,
            returns: self.returns,
            return_time: self.return_time,
            returned: self.returned,
            starts: self.starts,
        }
    }
}
