//! Colocation windows of peers next to one real-time guest while it is busy.
//!
//! Each peer has windows by its allowance. If the guest has a target, a controller bounds them by
//! the guest's own iterations.

use super::gates::Gates;
use super::pass::{Pass, Peer};
use crate::colocation::memory::{Memory, ProgramKey};
use crate::colocation::pairs::Pairs;
use crate::colocation::share::Slo;
use crate::colocation::windows::Windows;
use crate::page::iterations::Iteration;
use crate::page::layout::Counts;
use crate::page::mapping::Mapping;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

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
        period: Duration,
        memory: Option<(Arc<Memory>, ProgramKey)>,
    ) -> Self {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX >> 1);
        let (iterations, list, windows) = (Vec::new(), Arc::default(), Vec::new());
        let seen = page.iterations.count();
        let (pairs, launched) = (None, (0, Vec::new()));
        Self {
            page,
            pass,
            period,
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
        let found = self.control(now);
        let passed = if self.last.1 { now.saturating_sub(self.last.0) } else { 0 };
        self.last = (now, is_held);
        let mut until = u64::MAX;
        for (peer, windows) in &mut self.windows {
            if windows.is_open() {
                peer.pass.note_passed(passed);
            }
            let duty = peer.pass.allowance.duty(found);
            peer.pass.set_duty(duty);
            let step = windows.step(now, duty, is_held);
            if is_held {
                gates.set_passing(peer, step.is_open);
                until = until.min(step.until);
            }
        }
        match self.pairs.as_ref().filter(|_| is_held) {
            Some(_) => until.min(now + self.period),
            None => until,
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
        if self.windows.is_empty() {
            return Some(0); // there is nothing to let through
        }
        self.follow_peers(now);
        let memory = &self.memory;
        let pairs = self.pairs.get_or_insert_with(|| begin(memory.as_ref(), target, now));
        let controller = pairs.current_mut();
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
