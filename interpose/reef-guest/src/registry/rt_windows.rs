//! Colocation windows of peers next to one real-time guest while it is busy.
//!
//! Each peer has windows by its allowance. If the guest has a target, a controller bounds them by
//! the guest's own iterations.

use super::gates::Gates;
use super::pass::{Pass, Peer};
use super::rules::Rules;
use crate::colocation::memory::{Memory, ProgramKey};
use crate::colocation::pairs::Pairs;
use crate::colocation::share::{Percent, Slo};
use crate::colocation::windows::{Placement, Windows};
use crate::page::iterations::Iteration;
use crate::page::layout::Counts;
use crate::page::mapping::Mapping;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Time after the guest's work for which peers are held while its iterations are measured alone:
/// its next one may be on its way. A guest without work holds no peer.
const MAX_QUIET: u64 = 20_000_000;
/// Interval in nanoseconds after which peers that launched nothing count as idle. A held peer
/// launches more often than that, as its own gate opens for a moment.
const IDLE_INTERVAL: u64 = 1_000_000_000;

/// Windows of the peers of one real-time guest.
#[derive(Debug)]
pub(super) struct RtWindows {
    page: Arc<Mapping>,
    pass: Arc<Pass>,
    period: u64,
    /// The programs run side by side: a window costs no change of programs.
    is_under_mps: bool,
    /// An iteration has ended since peers were last held at a step.
    has_ended: bool,
    pairs: Option<Pairs>,
    /// Place from which these are taken and to which they return, if the program may start again.
    memory: Option<(Arc<Memory>, ProgramKey)>,
    /// Launches of each peer at this time.
    launched: (u64, Vec<u64>),
    /// Iterations that were read.
    seen: u64,
    iterations: Vec<Iteration>,
    list: Arc<Vec<Peer>>,
    windows: Vec<(Peer, Windows)>,
    /// Time of the last step, and whether the guest held its peers then.
    last: (u64, bool),
    /// Time at which it was last busy.
    busy: u64,
}

impl RtWindows {
    /// Creates the windows for the guest with this page. `memory` is asked for what was found for
    /// its program before, and keeps that afterwards.
    pub(super) fn new(
        page: Arc<Mapping>,
        pass: Arc<Pass>,
        rules: &Rules,
        memory: Option<(Arc<Memory>, ProgramKey)>,
    ) -> Self {
        let period = u64::try_from(rules.colocate_period.as_nanos()).unwrap_or(u64::MAX >> 1);
        let is_under_mps = (rules.is_under_mps)();
        let (iterations, list, windows) = (Vec::new(), Arc::default(), Vec::new());
        let seen = page.iterations.count();
        let (pairs, launched) = (None, (0, Vec::new()));
        Self {
            page,
            pass,
            period,
            is_under_mps,
            has_ended: false,
            pairs,
            memory,
            launched,
            seen,
            iterations,
            list,
            windows,
            last: (0, false),
            busy: 0,
        }
    }

    /// Returns whether peers must be held at this time although the guest isn't busy, or for
    /// longer: its iterations are measured alone.
    pub(super) fn is_measuring(&mut self, now: u64, is_busy: bool) -> bool {
        if is_busy {
            self.busy = now;
        }
        let is_silent = self.pairs.as_ref().is_some_and(|all| all.current().is_silent(now));
        is_silent && now.saturating_sub(self.busy) < MAX_QUIET
    }

    /// Opens and closes the gates of each peer at this time, while they are held. Returns the time
    /// of the next step.
    pub(super) fn step(&mut self, gates: &Gates, now: u64, is_held: bool) -> u64 {
        self.update_list(gates, now);
        self.note_passed(now); // before iterations are judged
        let found = self.control(now);
        let passed = if self.last.1 { now.saturating_sub(self.last.0) } else { 0 };
        self.last = (now, is_held);
        let has_ended = is_held && std::mem::take(&mut self.has_ended);
        let takes_turns = found.is_some() && !self.is_under_mps;
        let mut until = u64::MAX;
        for (peer, windows) in &mut self.windows {
            if windows.is_open() {
                peer.pass.note_passed(passed);
            }
            let duty = peer.pass.allowance.duty(found);
            peer.pass.set_duty(duty);
            // A floor holds whether iterations end or not.
            let placement = match peer.pass.allowance.floor {
                Percent::NONE if takes_turns => Placement::AfterIterations { has_ended },
                _ => Placement::Grid,
            };
            let step = windows.step_placed(now, duty, is_held, placement);
            if is_held {
                gates.set_passing(peer, step.is_open);
                until = until.min(step.until);
            }
        }
        self.note_passed(now);
        match self.pairs.as_ref().filter(|_| is_held) {
            Some(_) => until.min(now + self.period),
            None => until,
        }
    }

    /// Notes that peers have passed until now, if the gate of one is open.
    fn note_passed(&mut self, now: u64) {
        let has_open = self.windows.iter().any(|(_, windows)| windows.is_open());
        if let Some(pairs) = self.pairs.as_mut().filter(|_| has_open) {
            pairs.current_mut().note_passed(now);
        }
    }

    /// Takes over the list of peers, if it has changed.
    fn update_list(&mut self, gates: &Gates, now: u64) {
        let list = gates.peers();
        if Arc::ptr_eq(&list, &self.list) {
            return;
        }
        let before = std::mem::take(&mut self.windows);
        let known = |peer: &Peer| before.iter().find(|(one, _)| one.is(peer)).map(|(_, it)| *it);
        let windows = |peer: &Peer| known(peer).unwrap_or_else(|| Windows::new(self.period, now));
        self.windows = list.iter().map(|peer| (peer.clone(), windows(peer))).collect();
        self.list = list;
        self.launched.1.clear();
    }

    /// Finds out which peers have launched something lately, and goes on with their controller.
    fn follow_peers(&mut self, now: u64) {
        if now.saturating_sub(self.launched.0) < IDLE_INTERVAL {
            return;
        }
        let launched = self.windows.iter().map(|(peer, _)| launches(&peer.page.counts)).collect();
        let (_, before) = std::mem::replace(&mut self.launched, (now, launched));
        let counts = self.launched.1.iter().zip(&before);
        let peers = self.windows.iter().zip(counts).filter(|(_, (after, before))| after != before);
        let mut peers: Vec<u64> = peers.map(|((peer, _), _)| peer.pass.name).collect();
        peers.sort_unstable();
        let windows = &self.windows;
        let exists = |name: u64| windows.iter().any(|(peer, _)| peer.pass.name == name);
        if let Some(pairs) = &mut self.pairs {
            pairs.turn_to(peers, exists, now);
        }
    }

    /// Lets the controller see the guest's iterations, and returns the part that it has found.
    /// `None`: the guest has no target.
    fn control(&mut self, now: u64) -> Option<u32> {
        let target = self.pass.allowance.slo?;
        self.iterations.clear();
        self.seen = self.page.iterations.read(self.seen, &mut self.iterations);
        self.has_ended |= !self.iterations.is_empty();
        if self.windows.is_empty() {
            return Some(0); // there is nothing to let through
        }
        self.follow_peers(now);
        let memory = &self.memory;
        let pairs = self.pairs.get_or_insert_with(|| begin(memory.as_ref(), target, now));
        let controller = pairs.current_mut();
        let has_floor =
            self.windows.iter().any(|(peer, _)| peer.pass.allowance.floor != Percent::NONE);
        controller.set_after_iterations(!self.is_under_mps && !has_floor);
        controller.set_under_mps(self.is_under_mps);
        let applied = self.windows.iter().map(|(peer, _)| peer.pass.duty()).max().unwrap_or(0);
        let work = self.windows.iter().map(|(peer, _)| launches(&peer.page.counts));
        let work = work.fold(0, u64::wrapping_add);
        controller.note(&self.iterations, now, applied, work);
        self.pass.set_growth(controller.growth());
        self.pass.set_long_silences(controller.long_silences());
        self.pass.set_duty(controller.duty());
        Some(controller.duty())
    }
}

impl Drop for RtWindows {
    /// Keeps what was found: the guest has left.
    fn drop(&mut self) {
        if let (Some((memory, key)), Some(pairs)) = (&self.memory, self.pairs.take()) {
            memory.put(*key, pairs);
        }
    }
}

/// Returns the pairs that were kept for a program, or new ones.
fn begin(memory: Option<&(Arc<Memory>, ProgramKey)>, target: Slo, now: u64) -> Pairs {
    match memory.and_then(|(memory, key)| memory.take(*key, target)) {
        Some(mut pairs) => {
            pairs.start_again(now);
            pairs
        }
        None => Pairs::new(target, now),
    }
}

/// Launches of a guest: what it has done, as it runs ahead of its device by few of them. A guest
/// that says something else affects when its own windows are tried.
fn launches(counts: &Counts) -> u64 {
    counts.kernels.load(Relaxed).wrapping_add(counts.graphs.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colocation::allowance::Allowance;
    use crate::page::file::PageFile;
    use crate::page::layout::{Class, Identity};

    const MILLISECOND: u64 = 1_000_000;

    fn page(class: Class) -> Arc<Mapping> {
        let who = Identity { guest: 1, class, holder: 3, pid: 1 };
        Arc::new(PageFile::create(&who).unwrap().1)
    }

    /// Real-time program in a closed loop next to one peer, in simulated time.
    struct Loop {
        page: Arc<Mapping>,
        windows: RtWindows,
        gates: Gates,
        peer: Peer,
        now: u64,
        /// Length of an iteration alone, and time that each window costs, in nanoseconds.
        alone: u64,
        cost: u64,
        /// Part of its speed that it loses while the peer passes.
        slower: f64,
    }

    impl Loop {
        fn new(is_under_mps: fn() -> bool, alone: u64) -> Self {
            let page = page(Class::RealTime);
            let slo = Slo::of(1.1);
            let pass = Arc::new(Pass::new(Allowance { slo, ..Allowance::default() }, 1));
            let rules = Rules { is_under_mps, ..Rules::default() };
            let windows = RtWindows::new(page.clone(), pass, &rules, None);
            let allowance = Allowance { room: Percent::ALL, ..Allowance::default() };
            let pass = Arc::new(Pass::new(allowance, 2));
            let peer = Peer { page: super::tests::page(Class::BestEffort), pass };
            let gates = Gates::of(3);
            gates.set_peers(vec![peer.clone()]);
            gates.hold(true);
            let (cost, slower) = if is_under_mps() { (0, 0.5) } else { (2 * 150_000, 1.0) };
            Self { page, windows, gates, peer, now: MILLISECOND, alone, cost, slower }
        }

        /// Returns the part of the time that passes, in parts per million.
        fn duty(&self) -> u32 {
            self.peer.pass.duty()
        }

        /// Runs one iteration. Returns the windows that began in it, by times after its begin.
        /// Left out: times in which all passes, and a window that a measurement alone has cut.
        fn iterate(&mut self) -> Vec<(u64, u64)> {
            let (begin, mut rest, mut windows) = (self.now, self.alone as f64, Vec::new());
            let mut was_open = false;
            while rest > 0.0 && self.now - begin < 3 * self.alone {
                let next = self.windows.step(&self.gates, self.now, true);
                let is_open = !self.peer.page.holders.is_closed();
                if is_open && !was_open && self.duty() < 1_000_000 {
                    windows.push((self.now - begin, self.now - begin));
                    rest += self.cost as f64;
                }
                if was_open && !is_open && self.duty() == 0 {
                    windows.pop();
                }
                was_open = is_open;
                let speed = if is_open { 1.0 - self.slower } else { 1.0 };
                let time = next.min(self.now + MILLISECOND / 4) - self.now;
                let time = time.min(((rest / speed) as u64).saturating_add(1));
                self.now += time;
                rest -= time as f64 * speed;
                if is_open {
                    self.peer.page.counts.kernels.fetch_add(1, Relaxed);
                    windows.last_mut().into_iter().for_each(|window| window.1 = self.now - begin);
                }
            }
            let (end, length) = (self.now, self.now - begin);
            self.page.iterations.add(Iteration { end, length, kind: 7 });
            windows
        }
    }

    #[test]
    fn windows_without_mps_begin_after_iterations() {
        let mut program = Loop::new(|| false, 40 * MILLISECOND);
        (0..300).for_each(|_| drop(program.iterate()));
        let all: Vec<_> = (0..300).map(|_| program.iterate()).collect();
        let count = all.iter().filter(|windows| !windows.is_empty()).count();
        assert!(count > 150, "{count} of 300 iterations have windows");
        for windows in all.iter().filter(|windows| !windows.is_empty()) {
            let (begin, end) = windows[0];
            assert!(windows.len() == 1 && begin <= MILLISECOND, "{windows:?}");
            assert!(end - begin >= 1_500_000, "{windows:?}");
        }
    }

    /// The shortest window costs 1.8 ms, and the target allows 0.2 ms.
    #[test]
    fn windows_that_do_not_fit_close_without_mps() {
        let mut program = Loop::new(|| false, 2 * MILLISECOND);
        (0..3000).for_each(|_| drop(program.iterate()));
        let count: usize = (0..3000).map(|_| program.iterate().len()).sum();
        assert!(count < 60, "{count} windows in 3000 iterations");
    }

    /// The part at the target is a fifth of the time, and a share of threads keeps more.
    #[test]
    fn windows_that_threads_outdo_close_under_mps() {
        let mut program = Loop::new(|| true, 2 * MILLISECOND);
        let first: usize = (0..1000).map(|_| program.iterate().len()).sum();
        (0..9000).for_each(|_| drop(program.iterate()));
        let count: usize = (0..3000).map(|_| program.iterate().len()).sum();
        assert!(first > 100 && count < 60, "{first} windows at first, {count} in 3000 iterations");
    }

    /// Its iterations never end, as far as is known.
    #[test]
    fn floor_holds_without_mps_while_no_iteration_ends() {
        let mut program = Loop::new(|| false, 40 * MILLISECOND);
        let floor = Percent::new(10).unwrap();
        let allowance = Allowance { room: Percent::ALL, floor, ..Allowance::default() };
        let pass = Arc::new(Pass::new(allowance, 2));
        program.gates.set_peers(vec![Peer { pass: pass.clone(), ..program.peer.clone() }]);
        for now in (0..2000).map(|at| at * MILLISECOND / 4) {
            program.windows.step(&program.gates, now, true);
        }
        let passed = pass.passed().as_millis();
        assert!((40..60).contains(&passed), "{passed} ms of 500");
    }
}
