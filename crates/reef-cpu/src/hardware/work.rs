//! Work of commands, and the memory that it borrows.

use super::cpu::Cpu;
use crate::checkpoint::Checkpoint;
use crate::event::Event;
use crate::memory::borrow::{self, Access, Borrows, User};
use crate::memory::buffer::Buffer;
use crate::sync::claims::Claim;
use reef_core::{Copy, Fill, Launch};
use std::sync::Arc;

/// Work of one item of a queue.
#[derive(Debug)]
pub(crate) enum Work {
    Kernel(Launch<Cpu>),
    Copy(Copy<Cpu>),
    Fill(Fill<Cpu>),
    Event(Event),
}

impl Work {
    /// Kernels have blocks that are done one by one; everything else is one piece.
    pub(crate) fn blocks(&self) -> u32 {
        match self {
            Self::Kernel(launch) => launch.blocks(),
            _ => 1,
        }
    }

    /// Buffers and ranges that it touches, to be checked before it is queued.
    pub(crate) fn ranges(&self) -> [Option<(&Buffer, usize, usize)>; 2] {
        match self {
            Self::Copy(c) => {
                [Some((&c.from, c.from_offset, c.bytes)), Some((&c.to, c.to_offset, c.bytes))]
            }
            Self::Fill(f) => [Some((&f.buffer, f.offset, f.bytes)), None],
            Self::Kernel(_) | Self::Event(_) => [None, None],
        }
    }
}

/// Memory that a block of `work` borrows while it runs, written operands first.
pub(super) fn uses(work: &Work) -> impl Iterator<Item = (&Borrows, Access)> + Clone {
    let (copied, listed) = match work {
        Work::Kernel(launch) => ([None, None], launch.kernel().uses()),
        Work::Copy(c) => ([Some((&c.to, Access::Write)), Some((&c.from, Access::Read))], &[][..]),
        Work::Fill(f) => ([Some((&f.buffer, Access::Write)), None], &[][..]),
        Work::Event(_) => ([None, None], &[][..]),
    };
    let listed = listed.iter().map(|(buffer, access)| (buffer, *access));
    copied.into_iter().flatten().chain(listed).map(|(buffer, access)| (buffer.borrows(), access))
}

/// The right of `unit` to run a block, if one is left, with all that it uses borrowed for it. `Err`
/// if others have that.
pub(super) fn claim_block(
    unit: u32,
    work: &Arc<Work>,
    record: &Checkpoint,
) -> std::result::Result<Option<Claim>, Busy> {
    if !borrow::try_borrow(User(Arc::as_ptr(work).addr()), uses(work)) {
        return Err(Busy);
    }
    let claim = record.claim(unit);
    if claim.is_none() {
        borrow::give_back(uses(work));
    }
    Ok(claim)
}

/// An operand of a block is in use: its queue gives no blocks now.
#[derive(Debug)]
pub(super) struct Busy;
