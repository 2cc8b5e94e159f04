//! Next step for the processes: a departure, a return, both at once, or a start.

use super::choice::{Candidate, least_valuable};
use super::entry::{Entry, Id, Target};
use super::facts::{Held, ResidencyState, is_budget};
use super::table::Table;
use crate::class::Class;
use reef_suspend::{MARGIN, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Free bytes of devices. `None`: not known.
pub(super) type FreeBytes = BTreeMap<Uuid, Option<u64>>;

/// Interval between readings of free memory while a process waits for room.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Minimum interval between counts of the bytes of processes that are known.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// Next step of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Leave(Target),
    Return(Target),
    /// One leaves, and the other one returns in its room. Both are processes.
    Turnover {
        leaver: Target,
        returner: Target,
    },
    /// A process that starts has room.
    Admit,
    /// Memory of a device must be read first.
    Measure,
    /// There is nothing to do for this time. `None`: until something changes.
    Sleep(Option<Duration>),
}

/// Result of the attempt to serve a process that waits for room.
#[derive(Debug)]
enum Turn {
    Act(Step),
    /// Later ones on this device wait, too.
    Blocked(Uuid),
    /// It cannot be served now, and others go first.
    Passed,
}

/// Memory that a process lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shortage {
    None,
    Unmeasured,
    Of { device: Uuid, bytes: u64 },
}

impl Table {
    /// Returns devices whose free memory decides about the next step, and processes whose bytes are
    /// to be counted.
    pub(super) fn questions(&self) -> (BTreeSet<Uuid>, Vec<(Target, Option<Uuid>)>) {
        let waiting = self.entries.iter().filter(|(_, entry)| entry.turn.is_some());
        let needs = waiting.flat_map(|(id, _)| self.needs(*id));
        let devices = needs.map(|(device, _)| device).collect();
        let unknown = |target: Target| {
            let entry = self.entries.get(&target.id)?;
            // One that is suspended has less than its return needs.
            let is_counted = entry.held.is_some() && (entry.is_suspended || !self.counts_again);
            let is_there = entry.state == ResidencyState::Resident && !entry.is_network();
            (is_there && !is_counted).then_some((target, entry.facts.device))
        };
        (devices, self.targets().into_iter().filter_map(unknown).collect())
    }

    /// Returns the bytes that a process needs on each device.
    fn needs(&self, id: Id) -> Held {
        let Some(entry) = self.entries.get(&id) else { return Held::new() };
        match &entry.held {
            Some(held) => held.clone(),
            None if entry.facts.limit == 0 => Held::new(),
            // Before its first start: on the device that it is told, or that of the others.
            None => {
                let known = self.entries.values().filter_map(|other| other.held.as_ref());
                let mut others = known.flatten().map(|(device, _)| *device);
                let of_others = others.find(|device| !is_budget(device));
                let device = entry.facts.device.or(of_others);
                device.map(|device| (device, entry.facts.limit)).into_iter().collect()
            }
        }
    }

    fn needs_on(&self, id: Id, device: Uuid) -> u64 {
        let needs = self.needs(id);
        let there = needs.iter().filter(|(of, _)| *of == device);
        there.fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Returns the bytes of a device that starts have, apart from `but`.
    fn reserved(&self, device: Uuid, but: Id) -> u64 {
        let starts = self.entries.iter().filter(|(id, entry)| **id != but && entry.is_admitted);
        starts.fold(0_u64, |sum, (id, _)| sum.saturating_add(self.needs_on(*id, device)))
    }

    fn shortage(&self, id: Id, free: &FreeBytes) -> Shortage {
        for (device, bytes) in self.needs(id) {
            let need = bytes.saturating_add(MARGIN).saturating_add(self.reserved(device, id));
            match free.get(&device) {
                None => return Shortage::Unmeasured,
                Some(Some(have)) if *have < need => {
                    return Shortage::Of { device, bytes: need - have };
                }
                Some(_) => {}
            }
        }
        Shortage::None
    }

    /// True if a process could have `bytes` more of a device without all others that may leave.
    fn could_have(&self, id: Id, device: Uuid, bytes: u64, now: Instant) -> bool {
        let Some(class) = self.entries.get(&id).map(|entry| entry.class(now)) else { return false };
        let mut sum = 0_u64;
        for (other, entry) in self.entries.iter().filter(|(other, _)| **other != id) {
            let theirs = match entry.state {
                ResidencyState::Absent | ResidencyState::Away => Some(0),
                _ if entry.is_suspended || entry.clients > 0 => Some(0),
                ResidencyState::Resident if !entry.yields_to(class, now) => Some(0),
                ResidencyState::Starting => Some(self.needs_on(*other, device)),
                ResidencyState::Resident | ResidencyState::Leaving | ResidencyState::Returning => {
                    entry.bytes_on(device)
                }
            };
            match theirs {
                Some(theirs) => sum = sum.saturating_add(theirs),
                None => return true,
            }
        }
        sum >= bytes
    }

    /// Returns the least valuable process of a device that may leave for `want`: of those that work
    /// on a request, or of the others.
    fn leaver(&self, want: Id, device: Uuid, is_used: bool, now: Instant) -> Option<Id> {
        let class = self.entries.get(&want)?.class(now);
        let may_leave = |id: Id, entry: &Entry| {
            let is_there = entry.state == ResidencyState::Resident && !entry.is_suspended;
            let owes_answer = entry.is_awaited && !entry.has_answered;
            let has_memory = entry.bytes_on(device) != Some(0);
            id != want
                && is_there
                && has_memory
                && entry.is_used == is_used
                && entry.clients == 0
                && !entry.is_frozen
                && entry.is_due(now)
                && !owes_answer
                && entry.yields_to(class, now)
        };
        let leavers = self.entries.iter().filter(|(id, entry)| may_leave(**id, entry));
        let candidates = leavers.map(|(&id, entry)| Candidate {
            id,
            class: entry.class(now),
            unused: entry.unused(now),
            bytes: entry.bytes_on(device).unwrap_or(0),
        });
        least_valuable(&candidates.collect::<Vec<_>>())
    }

    /// Begins the departure of a process.
    fn begin_leave(&mut self, id: Id) -> Option<Step> {
        let entry = self.entries.get_mut(&id)?;
        let pid = entry.pid?;
        entry.state = ResidencyState::Leaving;
        Some(Step::Leave(Target { id, pid }))
    }

    /// Begins the return of a process that has room, or admits its start.
    fn admit(&mut self, id: Id) -> Option<Step> {
        let entry = self.entries.get_mut(&id)?;
        if entry.state == ResidencyState::Starting {
            (entry.is_admitted, entry.turn) = (true, None);
            return Some(Step::Admit);
        }
        let pid = entry.pid?;
        entry.state = ResidencyState::Returning;
        Some(Step::Return(Target { id, pid }))
    }

    /// Begins the departure of a process for `id`, which returns meanwhile if both are processes,
    /// and it has enough room then. The room that a network leaves is measured first.
    fn make_room(&mut self, id: Id, leaver: Id, free: &FreeBytes) -> Option<Step> {
        let is_away = self.state_of(id) == ResidencyState::Away;
        let is_process = |id: Id| self.entries.get(&id).is_some_and(|entry| !entry.is_network());
        let may_overlap = is_away && is_process(id) && is_process(leaver);
        let is_enough = may_overlap && self.frees_enough(id, leaver, free);
        let step = self.begin_leave(leaver);
        if let Some(Step::Leave(leaver)) = step
            && is_enough
            && let Some(Step::Return(returner)) = self.admit(id)
        {
            return Some(Step::Turnover { leaver, returner });
        }
        step
    }

    /// True if `id` has room without `leaver`.
    fn frees_enough(&self, id: Id, leaver: Id, free: &FreeBytes) -> bool {
        let Some(leaver) = self.entries.get(&leaver) else { return false };
        let with_its = |(device, bytes): (&Uuid, &Option<u64>)| {
            let its = leaver.bytes_on(*device).unwrap_or(0);
            (*device, bytes.map(|bytes| bytes.saturating_add(its)))
        };
        let free: FreeBytes = free.iter().map(with_its).collect();
        self.shortage(id, &free) == Shortage::None
    }

    /// Serves a process that waits for room.
    fn serve(&mut self, id: Id, now: Instant, free: &FreeBytes) -> Turn {
        let waits = |entry: &&Entry| {
            let is_off = matches!(entry.state, ResidencyState::Away | ResidencyState::Starting);
            is_off && entry.is_due(now) && !entry.is_suspended && !entry.is_frozen
        };
        if self.entries.get(&id).filter(waits).is_none() {
            return Turn::Passed;
        }
        let act = |step: Option<Step>| step.map_or(Turn::Passed, Turn::Act);
        match self.shortage(id, free) {
            Shortage::None => act(self.admit(id)),
            Shortage::Unmeasured => Turn::Act(Step::Measure),
            Shortage::Of { device, bytes } if !self.could_have(id, device, bytes, now) => {
                self.count_again(now);
                Turn::Passed
            }
            Shortage::Of { device, .. } => {
                if let Some(leaver) = self.leaver(id, device, false, now) {
                    return act(self.make_room(id, leaver, free));
                }
                if let Some(busy) = self.leaver(id, device, true, now)
                    && let Some(entry) = self.entries.get_mut(&busy)
                {
                    entry.must_leave = true;
                }
                Turn::Blocked(device)
            }
        }
    }

    /// Has the bytes of all resident processes be counted again, unless that was a moment ago: one
    /// that has grown since may have enough for another one.
    fn count_again(&mut self, now: Instant) {
        let is_due = |at: Instant| now.saturating_duration_since(at) >= COUNT_INTERVAL;
        if self.counted.is_none_or(is_due) {
            (self.counts_again, self.counted) = (true, Some(now));
        }
    }

    /// Returns the next step, which begins now. `free` has the devices of
    /// [`questions`](Self::questions).
    pub(super) fn next(&mut self, now: Instant, free: &FreeBytes) -> Step {
        // Set again below, if one still waits for it.
        self.counts_again = false;
        self.entries.values_mut().for_each(|entry| entry.must_leave = false);
        let mut blocked: Vec<Uuid> = Vec::new();
        for id in self.turns(now) {
            let needs = self.needs(id);
            if needs.iter().any(|(device, _)| blocked.contains(device)) {
                continue;
            }
            match self.serve(id, now, free) {
                Turn::Act(step) => return step,
                Turn::Blocked(device) => blocked.push(device),
                Turn::Passed => {}
            }
        }
        self.next_idle(now)
    }

    /// Returns the processes that wait for room: real-time ones first, and those of a class in the
    /// order in which they began to wait.
    fn turns(&self, now: Instant) -> Vec<Id> {
        let turn = |(id, entry): (&Id, &Entry)| {
            let is_best_effort = entry.class(now) != Class::RealTime;
            Some((is_best_effort, entry.turn?, *id))
        };
        let mut turns: Vec<(bool, u64, Id)> = self.entries.iter().filter_map(turn).collect();
        turns.sort_unstable();
        turns.into_iter().map(|(.., id)| id).collect()
    }

    /// Returns the departure of a process that has been idle for long enough, or the time until
    /// then.
    fn next_idle(&mut self, now: Instant) -> Step {
        let idle = self.entries.iter().filter(|(_, entry)| entry.is_idle());
        let first = idle.map(|(id, entry)| (entry.departure(), *id)).min();
        if let Some((_, id)) = first.filter(|(at, _)| *at <= now)
            && let Some(step) = self.begin_leave(id)
        {
            return step;
        }
        let until = first.map(|(at, _)| at.saturating_duration_since(now));
        let poll = self.has_turns().then_some(POLL_INTERVAL);
        Step::Sleep(until.into_iter().chain(poll).min())
    }
}

#[cfg(test)]
mod tests;
