//! Best-effort blocks beside real-time kernels: bounded slices on a second stream.
//!
//! A word counts the real-time kernels that were padded and have ended. The slice beside kernel `n` waits
//! until the word is `n`, and is void when it is more: blocks that are late are stopped.
//!
//! ```text
//! real-time stream:   kernel 0 │ word = 1 │ kernel 1 │ word = 2 │ ...
//! second stream:      wait 0, slice 0     │ wait 1, slice 1     │ ...
//! ```

use crate::Cuda;
use crate::guarded::{Epoch, Guarded};
use crate::record::{Record, Segment};
use crate::slots::Slot;
use crate::stream::Stream;
use crate::word::DeviceWord;
use parking_lot::Mutex;
use reef_core::{Launch, Priority, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// The second stream of a real-time queue, and the blocks that it has of best-effort kernels.
#[derive(Debug, Clone)]
pub(crate) struct Pads(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    stream: Stream,
    /// The word.
    ended: DeviceWord,
    /// Real-time kernels that were padded.
    turn: u32,
    guarded: Guarded,
    lent: VecDeque<Lent>,
    /// How many of these the report that is on its way covers; 0: none is.
    reporting: usize,
}

/// Blocks of a best-effort kernel that are with the device.
#[derive(Debug)]
struct Lent {
    record: Record,
    slot: Arc<Slot>,
    blocks: u32,
    /// Kept until the blocks have ended: the list that they read, and their memory.
    _kept: (Segment, Launch<Cuda>),
}

impl Pads {
    pub(crate) fn new(cuda: &Cuda) -> Result<Self> {
        Ok(Self(Arc::new(Mutex::new(State {
            stream: Stream::open(cuda.context(), Priority::BestEffort)?,
            ended: DeviceWord::new(cuda.context())?,
            turn: 0,
            guarded: Guarded::new(cuda.context(), cuda.builtin().report)?,
            lent: VecDeque::new(),
            reporting: 0,
        }))))
    }

    /// Lets up to `most` blocks of `be` run beside the kernel that was launched last on `rt`.
    pub(crate) fn pad(
        &self,
        rt: &Stream,
        be: &Launch<Cuda>,
        record: &Record,
        most: u32,
    ) -> Result<()> {
        let mut state = self.0.lock();
        let Some(segment) = record.lend(most, self) else { return Ok(()) };
        let slice = state.slice(rt, be, &segment);
        match slice {
            Ok(slot) => {
                let (record, blocks) = (record.clone(), segment.count);
                let _kept = (segment, be.clone());
                state.lent.push_back(Lent { record, slot, blocks, _kept });
                Ok(())
            }
            Err(error) => {
                record.settle(segment.count, Some(segment));
                Err(error)
            }
        }
    }

    /// Settles records as far as the device has told, and asks it for more. Doesn't block.
    ///
    /// # Errors
    ///
    /// The device's.
    pub(crate) fn collect(&self) -> Result<()> {
        self.0.lock().collect()
    }
}

impl State {
    fn slice(&mut self, rt: &Stream, be: &Launch<Cuda>, segment: &Segment) -> Result<Arc<Slot>> {
        let (live, turn) = (self.ended.address(), self.turn);
        // SAFETY: the word is ours.
        unsafe {
            rt.write_word(live, turn.wrapping_add(1))?;
            self.turn = turn.wrapping_add(1);
            self.stream.wait_word(live, turn)?;
        }
        let epoch = Epoch { live, value: turn, word: 0, may_stop: true };
        self.guarded.launch(&self.stream, be, segment, epoch)
    }

    fn collect(&mut self) -> Result<()> {
        if self.reporting > 0 && self.guarded.is_answered() {
            for lent in self.lent.drain(..std::mem::take(&mut self.reporting)) {
                let count = self.guarded.stopped(&lent.slot)?;
                let list = Some(lent.slot.clone());
                let back = (count > 0).then_some(Segment { list, first: 0, count });
                lent.record.settle(lent.blocks, back);
                self.guarded.give_back(lent.slot);
            }
        }
        if self.reporting == 0 && !self.lent.is_empty() {
            self.guarded.ask(&self.stream)?;
            self.reporting = self.lent.len();
        }
        Ok(())
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = self.stream.wait(); // before the memory that its work writes to is freed
    }
}
