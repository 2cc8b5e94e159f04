//! Which blocks of a launch have run. Each block takes effect exactly once because it is given out
//! only while no other unit has it, and comes back only if it has changed nothing.

use parking_lot::Mutex;
use reef_core::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A block that was stopped this often runs to its end the next time, however often real-time work
/// arrives: best-effort work is slowed down, never starved.
const MAX_STOPS: u8 = 2;

/// The blocks of one launch: given out, given back, finished.
#[derive(Debug, Clone)]
pub struct Checkpoint(Arc<Blocks>);

#[derive(Debug)]
struct Blocks {
    remaining: AtomicU32,
    claims: Mutex<Claims>,
}

#[derive(Debug)]
struct Claims {
    /// Blocks from here on have never been given out.
    next: u32,
    total: u32,
    /// Blocks that were stopped, and how often.
    back: Vec<Claim>,
    /// What went wrong in a block that ran as padding.
    failed: Option<Error>,
}

/// The right to run one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) index: u32,
    stops: u8,
}

impl Claim {
    /// Whether the block may be stopped once more.
    pub(crate) fn may_stop(self) -> bool {
        self.stops < MAX_STOPS
    }
}

impl Checkpoint {
    pub(crate) fn new(total: u32) -> Self {
        let claims = Claims { next: 0, total, back: Vec::new(), failed: None };
        Self(Arc::new(Blocks { remaining: AtomicU32::new(total), claims: Mutex::new(claims) }))
    }

    /// A block to run, if one is left. It must be finished or given back.
    pub(crate) fn claim(&self) -> Option<Claim> {
        let mut claims = self.0.claims.lock();
        if let Some(claim) = claims.back.pop() {
            return Some(claim);
        }
        let index = claims.next;
        (index < claims.total).then(|| {
            claims.next += 1;
            Claim { index, stops: 0 }
        })
    }

    /// The block took effect.
    pub(crate) fn finish(&self, _: Claim) {
        self.0.remaining.fetch_sub(1, Ordering::AcqRel);
    }

    /// The block was stopped before it changed anything.
    pub(crate) fn give_back(&self, claim: Claim) {
        let stops = claim.stops.saturating_add(1);
        self.0.claims.lock().back.push(Claim { stops, ..claim });
    }

    /// Blocks of the launch that it is for.
    pub(crate) fn total(&self) -> u32 {
        self.0.claims.lock().total
    }

    /// Whether any block was ever given out.
    pub(crate) fn is_touched(&self) -> bool {
        self.0.claims.lock().next > 0
    }

    pub(crate) fn fail(&self, error: Error) {
        self.0.claims.lock().failed = Some(error);
    }

    pub(crate) fn failed(&self) -> Option<Error> {
        self.0.claims.lock().failed.clone()
    }
}

impl reef_core::Checkpoint for Checkpoint {
    fn remaining(&self) -> u32 {
        self.0.remaining.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_core::Checkpoint as _;

    #[test]
    fn each_block_is_given_out_once_unless_it_comes_back() {
        let record = Checkpoint::new(3);
        let [a, b, c] = std::array::from_fn(|_| record.claim().unwrap());
        assert_eq!(record.claim(), None);
        record.finish(a);
        record.finish(c);
        assert_eq!(record.remaining(), 1);
        record.give_back(b);
        assert_eq!(record.claim().unwrap().index, b.index);
        assert_eq!(record.claim(), None);
    }

    #[test]
    fn a_block_that_is_stopped_again_and_again_runs_through() {
        let record = Checkpoint::new(1);
        for _ in 0..MAX_STOPS {
            let claim = record.claim().unwrap();
            assert!(claim.may_stop());
            record.give_back(claim);
        }
        assert!(!record.claim().unwrap().may_stop());
    }
}
