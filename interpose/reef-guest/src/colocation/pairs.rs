//! Pairs: a real-time program next to each set of best-effort programs that it has met.

use super::controller::Controller;
use super::share::Slo;

/// Sets that are kept next to the current one. Those of peers that have ended make room for further
/// ones. Without such, a further one shares a controller with the current one.
const MAX_EARLIER: usize = 8;

/// Controllers of one real-time program, each for a set of best-effort programs that launch at the
/// same time. A set begins with what it had found before, and what is known of the real-time
/// program alone is known in all.
#[derive(Debug)]
pub(crate) struct Pairs {
    target: Slo,
    current: Controller,
    /// Peers of the current controller, by their names; empty: none has launched so far.
    peers: Vec<u64>,
    earlier: Vec<(Vec<u64>, Controller)>,
}

impl Pairs {
    /// Creates the controller of the first set, whichever that will be, at this time.
    pub(crate) fn new(target: Slo, now: u64) -> Self {
        let (current, peers, earlier) = (Controller::new(target, now), Vec::new(), Vec::new());
        Self { target, current, peers, earlier }
    }

    /// Returns the target for which parts were found.
    pub(crate) fn target(&self) -> Slo {
        self.target
    }

    /// Forgets what is known of the real-time program alone: it has ended. What was found next to
    /// each set stays.
    pub(crate) fn forget_alone(&mut self) {
        self.current.forget_alone();
        self.earlier.iter_mut().for_each(|(_, controller)| controller.forget_alone());
    }

    /// Goes on at this time next to the last set, because the program has started again: it is
    /// measured alone first.
    pub(crate) fn start_again(&mut self, now: u64) {
        self.current.follow(&mut Controller::new(self.target, now), now);
    }

    pub(crate) fn current(&self) -> &Controller {
        &self.current
    }

    /// Returns the current controller.
    pub(crate) fn current_mut(&mut self) -> &mut Controller {
        &mut self.current
    }

    /// Goes on with the controller of these peers. No peers say nothing. `exists` is asked whether
    /// there still is a peer with this name.
    pub(crate) fn turn_to(&mut self, peers: Vec<u64>, exists: impl Fn(u64) -> bool, now: u64) {
        if peers.is_empty() || peers == self.peers {
            return;
        }
        let known = self.earlier.iter().position(|(of, _)| *of == peers);
        let has_room = known.is_some() || self.make_room(exists);
        if self.peers.is_empty() || !has_room {
            self.peers = peers;
            return;
        }
        let next = match known {
            Some(at) => self.earlier.remove(at).1,
            None => self.current.next_to_others(self.target, now),
        };
        let mut before = std::mem::replace(&mut self.current, next);
        self.current.follow(&mut before, now);
        self.earlier.push((std::mem::replace(&mut self.peers, peers), before));
    }

    /// Returns whether one more set can be kept. Drops the first one with a peer that has ended, if
    /// there are as many as can be.
    fn make_room(&mut self, exists: impl Fn(u64) -> bool) -> bool {
        if self.earlier.len() < MAX_EARLIER {
            return true;
        }
        let has_ended = |(peers, _): &(Vec<u64>, Controller)| !peers.iter().all(|one| exists(*one));
        let ended = self.earlier.iter().position(has_ended);
        ended.map(|at| self.earlier.remove(at)).is_some()
    }
}
