//! A hardware queue: what the host has asked of it, and its packet processor.

use crate::queue::aql::Aql;
use crate::queue::ring::Ring;
use crate::queue::sdma::Sdma;

/// All units.
pub(crate) const EVERY_UNIT: u64 = u64::MAX;

/// Processor of a queue, by the packets that it understands.
#[derive(Debug)]
pub(crate) enum Processor {
    Compute(Aql),
    Copy(Sdma),
}

/// One queue.
#[derive(Debug)]
pub(crate) struct HardwareQueue {
    pub(crate) ring: Ring,
    pub(crate) processor: Processor,
    /// −3 to 3; the highest goes first.
    pub(crate) priority: i32,
    /// A bit for each unit that its workgroups may run on.
    pub(crate) mask: u64,
    /// The host lets it run.
    pub(crate) active: bool,
}

impl HardwareQueue {
    pub(crate) fn new(ring: Ring, copies: bool, priority: i32, active: bool) -> Self {
        let processor = if copies {
            Processor::Copy(Sdma::default())
        } else {
            Processor::Compute(Aql::starting_at(&ring))
        };
        Self { ring, processor, priority, mask: EVERY_UNIT, active }
    }

    /// Makes its packets fail from now on.
    pub(crate) fn fail(&mut self) {
        match &mut self.processor {
            Processor::Compute(aql) => aql.failed = true,
            Processor::Copy(sdma) => sdma.failed = true,
        }
    }
}
