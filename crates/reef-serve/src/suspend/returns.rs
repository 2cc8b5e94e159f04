//! Processes that the policy has suspended, and the time of their return.

use reef_suspend::{Process, Suspended, Uuid};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time for which there must be room before anything returns: a program that frees memory and
/// allocates it again a moment later must not cause a copy.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Processes that were suspended together.
#[derive(Debug)]
struct SuspendedGroup {
    processes: Vec<Process>,
    /// Bytes that they need on each device.
    held: Vec<(Uuid, u64)>,
    /// Begin of the time in which there is room for them. `None`: there is none.
    room_since: Option<Instant>,
}

/// Processes that are away, the one that left first in front, and last returns.
#[derive(Debug, Default)]
pub(super) struct Returns {
    away: Vec<SuspendedGroup>,
    returned: HashMap<Process, Instant>,
}

impl Returns {
    /// Notes processes that were suspended together.
    pub(super) fn note_away(&mut self, all: &[Suspended]) {
        let held = all.iter().flat_map(|one| &one.held);
        let mut bytes = HashMap::<Uuid, u64>::new();
        for (uuid, more) in held.filter_map(|held| Some((held.uuid()?, held.bytes))) {
            let sum = bytes.entry(uuid).or_default();
            *sum = sum.saturating_add(more);
        }
        let processes = all.iter().map(|one| one.process).collect();
        self.away.push(SuspendedGroup {
            processes,
            held: bytes.into_iter().collect(),
            room_since: None,
        });
    }

    /// Forgets processes that are not among the suspended: they have ended, or an operator brought
    /// them back.
    pub(super) fn keep(&mut self, suspended: &[Suspended]) {
        for away in &mut self.away {
            away.processes.retain(|process| suspended.iter().any(|one| one.process == *process));
        }
        self.away.retain(|away| !away.processes.is_empty());
        self.returned.retain(|process, _| process.is_alive());
    }

    /// Returns whether no process is away.
    pub(super) fn is_empty(&self) -> bool {
        self.away.is_empty()
    }

    /// Devices that processes that are away need.
    pub(super) fn devices(&self) -> Vec<Uuid> {
        let held = self.away.iter().flat_map(|away| &away.held);
        held.map(|(device, _)| *device).collect()
    }

    /// Last return of any of these processes.
    pub(super) fn last_return(&self, pids: &[u32]) -> Option<Instant> {
        let of = self.returned.iter().filter(|(process, _)| pids.contains(&process.pid));
        of.map(|(_, at)| *at).max()
    }

    /// Returns the processes that may return now: the first that left, of those for which
    /// `has_room` has been true for a while and whose last return was `interval` ago.
    pub(super) fn next(
        &mut self,
        interval: Duration,
        now: Instant,
        has_room: impl Fn(&[(Uuid, u64)]) -> bool,
    ) -> Option<Vec<u32>> {
        for away in &mut self.away {
            let since = has_room(&away.held).then(|| away.room_since.unwrap_or(now));
            away.room_since = since;
        }
        let may = |away: &&SuspendedGroup| {
            let settled = away.room_since.is_some_and(|since| now - since >= SETTLE_TIME);
            let returned = |process| self.returned.get(process).map(|at| now - *at);
            let rested = away.processes.iter().filter_map(returned).all(|time| time >= interval);
            settled && rested
        };
        let first = self.away.iter().find(may)?;
        Some(first.processes.iter().map(|process| process.pid).collect())
    }

    /// Notes the return of these processes, or that it was refused: then they wait for room anew.
    pub(super) fn note_return(&mut self, pids: &[u32], now: Instant, is_back: bool) {
        let Some(at) = self
            .away
            .iter()
            .position(|away| away.processes.iter().any(|process| pids.contains(&process.pid)))
        else {
            return;
        };
        if is_back {
            let away = self.away.remove(at);
            self.returned.extend(away.processes.into_iter().map(|process| (process, now)));
        } else {
            self.away[at].room_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_suspend::Steps;

    const GPU: Uuid = [7; 16];
    const MINUTE: Duration = Duration::from_secs(60);

    fn suspended(pid: u32, bytes: u64) -> Suspended {
        let device = GPU.iter().map(|byte| format!("{byte:02x}")).collect();
        Suspended {
            process: Process { pid, start: 1 },
            name: "python".into(),
            held: vec![reef_suspend::Held { device, bytes }],
            since: 0,
            steps: Steps::default(),
            for_memory: true,
            is_swapped: false,
            swapped: Vec::new(),
        }
    }

    /// Room for a process of up to this number of bytes.
    fn room(free: u64) -> impl Fn(&[(Uuid, u64)]) -> bool {
        move |held| held.iter().all(|(device, bytes)| *device == GPU && *bytes <= free)
    }

    #[test]
    fn first_that_left_returns_first_once_room_has_lasted() {
        let (mut all, now) = (Returns::default(), Instant::now());
        all.note_away(&[suspended(1, 50), suspended(2, 20)]);
        all.note_away(&[suspended(3, 60)]);
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(all.next(MINUTE, now, room(80)), None, "it has just come");
        assert_eq!(all.next(MINUTE, at(1), room(10)), None);
        assert_eq!(all.next(MINUTE, at(2), room(80)), None, "it began anew");
        assert_eq!(all.next(MINUTE, at(4), room(80)), Some(vec![1, 2]));
        all.note_return(&[1, 2], at(5), true);
        assert_eq!(all.next(MINUTE, at(6), room(80)), Some(vec![3]));
        all.note_return(&[3], at(6), false);
        assert_eq!(all.next(MINUTE, at(7), room(80)), None, "it was refused");
        assert_eq!(all.next(MINUTE, at(9), room(80)), Some(vec![3]));
    }

    #[test]
    fn larger_one_without_room_is_passed_by() {
        let (mut all, now) = (Returns::default(), Instant::now());
        all.note_away(&[suspended(1, 50)]);
        all.note_away(&[suspended(2, 20)]);
        assert_eq!(all.next(MINUTE, now, room(30)), None);
        assert_eq!(all.next(MINUTE, now + SETTLE_TIME, room(30)), Some(vec![2]));
    }

    #[test]
    fn process_makes_one_round_trip_in_an_interval() {
        let (mut all, now) = (Returns::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        let own = Process::of(std::process::id()).unwrap();
        let me = Suspended { process: own, ..suspended(own.pid, 50) };
        all.note_away(std::slice::from_ref(&me));
        all.note_return(&[own.pid], now, true);
        assert_eq!(all.last_return(&[own.pid]), Some(now));
        all.note_away(std::slice::from_ref(&me));
        assert_eq!(all.next(MINUTE, at(10), room(80)), None);
        assert_eq!(all.next(MINUTE, at(59), room(80)), None, "it was back a minute ago");
        assert_eq!(all.next(MINUTE, at(60), room(80)), Some(vec![own.pid]));
        all.keep(&[]);
        assert!(all.is_empty(), "an operator brought it back");
    }
}
