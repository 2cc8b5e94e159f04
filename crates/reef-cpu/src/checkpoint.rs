//! Blocks of a launch that have run. Each block takes effect exactly once because it is given out
//! only while no other unit has it, and comes back only if it has changed nothing.

use crate::sync::claims::{Claim, Claims};
use parking_lot::Mutex;
use reef_core::{Error, Result};
use std::sync::Arc;

/// The blocks of one launch: given out, given back, finished.
#[derive(Debug, Clone)]
pub struct Checkpoint(Arc<Blocks>);

#[derive(Debug)]
struct Blocks {
    claims: Claims,
    /// Error of a block that ran as padding.
    failed: Mutex<Option<Error>>,
}

impl Checkpoint {
    pub(crate) fn new(total: u32) -> Self {
        Self::of(Claims::new(total))
    }

    /// Of a launch that has only these blocks left.
    pub(crate) fn of_left(blocks: &reef_core::Blocks) -> Self {
        Self::of(Claims::of_left(blocks.total(), blocks.ranges()))
    }

    fn of(claims: Claims) -> Self {
        Self(Arc::new(Blocks { claims, failed: Mutex::default() }))
    }

    /// See [`reef_core::Device::blocks`].
    pub(crate) fn blocks(&self) -> Result<reef_core::Blocks> {
        self.failed().map_or(Ok(()), Err)?;
        let left = self.0.claims.remainder();
        let left = left.ok_or(Error::state("reading the blocks of a launch", "it runs"))?;
        reef_core::Blocks::of_indices(self.total(), 0, left)
    }

    /// A block to run for `unit`, if one is left. It must be finished or given back.
    pub(crate) fn claim(&self, unit: u32) -> Option<Claim> {
        self.0.claims.claim(unit)
    }

    /// The block took effect.
    pub(crate) fn finish(&self, claim: Claim) {
        self.0.claims.finish(claim);
    }

    /// Finishes the block, and makes `claim` another one for `unit`, unless none is left.
    pub(crate) fn go_on(&self, claim: &mut Claim, unit: u32) -> bool {
        self.0.claims.go_on(claim, unit)
    }

    /// The block was stopped before it changed anything.
    pub(crate) fn give_back(&self, claim: Claim) {
        self.0.claims.give_back(claim);
    }

    /// Blocks of the launch that it is for.
    pub(crate) fn total(&self) -> u32 {
        self.0.claims.total()
    }

    /// Returns whether any block was ever given out.
    pub(crate) fn is_touched(&self) -> bool {
        self.0.claims.is_touched()
    }

    pub(crate) fn fail(&self, error: Error) {
        *self.0.failed.lock() = Some(error);
    }

    pub(crate) fn failed(&self) -> Option<Error> {
        self.0.failed.lock().clone()
    }
}

impl reef_core::Checkpoint for Checkpoint {
    fn remaining(&self) -> u32 {
        self.0.claims.remaining()
    }
}
