//! Pairs: a real-time program next to each set of best-effort programs that it has met.

use super::controller::Controller;
use super::share::Slo;

/// Sets that are kept next to the current one. Further ones share a controller with that.
const MAX_EARLIER: usize = 8;
/// In place of the name of a peer that no longer exists: a later one may have that name.
const GONE: usize = usize::MAX;

/// Controllers of one real-time program, each for a set of best-effort programs that launch at the
/// same time. A set begins with what it had found before, and what is known of the real-time
/// program alone is known in all.
#[derive(Debug)]
pub(crate) struct Pairs {
    target: Slo,
    current: Controller,
    /// Peers of the current controller, by any names but [`GONE`]; empty: none has launched so far.
    peers: Vec<usize>,
    earlier: Vec<(Vec<usize>, Controller)>,
}

impl Pairs {
    /// Creates the controller of the first set, whichever that will be, at this time.
    pub(crate) fn new(target: Slo, now: u64) -> Self {
        let (current, peers, earlier) = (Controller::new(target, now), Vec::new(), Vec::new());
        Self { target, current, peers, earlier }
    }

    /// Returns the current controller.
    pub(crate) fn current(&self) -> &Controller {
        &self.current
    }

    /// Returns the current controller.
    pub(crate) fn current_mut(&mut self) -> &mut Controller {
        &mut self.current
    }

    /// Goes on with the controller of these peers. No peers say nothing.
    pub(crate) fn turn_to(&mut self, peers: Vec<usize>, now: u64) {
        if peers.is_empty() || peers == self.peers {
            return;
        }
        let known = self.earlier.iter().position(|(of, _)| *of == peers);
        if self.peers.is_empty() || known.is_none() && self.earlier.len() >= MAX_EARLIER {
            self.peers = peers;
            return;
        }
        let next = match known {
            Some(at) => self.earlier.remove(at).1,
            None => Controller::new(self.target, now),
        };
        let mut before = std::mem::replace(&mut self.current, next);
        self.current.follow(&mut before, now);
        self.earlier.push((std::mem::replace(&mut self.peers, peers), before));
    }

    /// Drops what was found next to peers that no longer exist.
    pub(crate) fn retain(&mut self, exists: impl Fn(usize) -> bool) {
        self.earlier.retain(|(peers, _)| peers.iter().all(|peer| exists(*peer)));
        self.peers.iter_mut().filter(|peer| !exists(**peer)).for_each(|peer| *peer = GONE);
    }
}
