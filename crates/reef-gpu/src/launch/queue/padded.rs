//! Real-time kernels with blocks of a best-effort kernel next to them.
//!
//! In: both launches, and the record of the best-effort one. Out: the real-time kernel in the
//! queue's stream, with a word behind it that stops the blocks, and the blocks in another stream.
//! A failure of the best-effort part costs the real-time part nothing: the blocks stay in the
//! record, and their own queue meets the error.

use crate::code::guard::MAX_BLOCKS;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::hal::streams::{PaddedParts, PaddedStreams};
use crate::launch::checkpoint::Checkpoint;
use crate::launch::companions::{Companions, Plan};
use crate::launch::queue::hardware_queue::Queue;
use reef_core::dkp::Padding;
use reef_core::{Launch, Queue as _, Result, Seq};

/// A best-effort kernel, its record, and how many of its blocks fit.
pub(super) struct Be<'a, V: Vendor> {
    pub(super) launch: &'a Launch<Gpu<V>>,
    pub(super) record: &'a Checkpoint<V>,
    pub(super) padding: &'a Padding,
}

/// The parts, for a vendor that puts them into their streams.
struct Parts<'q, 'a, V: Vendor> {
    queue: &'q mut Queue<V>,
    companions: &'q mut Companions<V>,
    /// Stream of the best-effort part.
    at: usize,
    seq: Seq,
    rt: &'a Launch<Gpu<V>>,
    /// `None` when the driver has it.
    plan: Option<Plan<'a, V>>,
    /// Result of launching the real-time kernel, once that was tried.
    launched: Option<Result<()>>,
}

impl<V: Vendor> PaddedParts for Parts<'_, '_, V> {
    fn real_time(&mut self) -> Result<()> {
        let launched = self.queue.launch(self.seq, self.rt, None);
        self.launched.insert(launched).clone()
    }

    fn stop(&mut self) -> Result<()> {
        let (word, value) = self.companions.end();
        self.queue.gpu.writer().write(&self.queue.stream, word, value)
    }

    fn best_effort(&mut self) -> Result<()> {
        self.companions.launch(self.at, self.seq.0, &mut self.plan)
    }
}

impl<V: Vendor> Queue<V> {
    /// Launches `rt`, which has blocks, padded as far as that can be done now.
    pub(super) fn launch_real_time(
        &mut self,
        seq: Seq,
        rt: &Launch<Gpu<V>>,
        be: Be<'_, V>,
    ) -> Result<()> {
        let mut companions = match self.companions.take() {
            Some(companions) => companions,
            None => Box::new(Companions::open(&self.gpu)?),
        };
        let plan = |(at, occupied)| {
            let plan = self.plan(&be, rt.blocks(), occupied)?;
            Some((at, plan))
        };
        let launched = match companions.free().and_then(plan) {
            Some((at, plan)) => self.launch_parts(seq, rt, plan, at, &mut companions),
            None => self.launch(seq, rt, None),
        };
        self.companions = Some(companions);
        launched
    }

    fn launch_parts(
        &mut self,
        seq: Seq,
        rt: &Launch<Gpu<V>>,
        plan: Plan<'_, V>,
        at: usize,
        companions: &mut Companions<V>,
    ) -> Result<()> {
        let streams = PaddedStreams {
            real_time: self.stream.raw(),
            best_effort: companions.stream(at).raw(),
            is_busy: !self.timeline.is_idle(),
        };
        let context = self.gpu.context().clone();
        let (plan, launched) = (Some(plan), None);
        let mut parts = Parts { queue: self, companions, at, seq, rt, plan, launched };
        // SAFETY: both streams are open, and none of ours is captured.
        let _ = unsafe { context.call().launch_padded(streams, &mut parts) };
        let Parts { plan, launched, .. } = parts;
        companions.next_epoch();
        if let Some(Plan { record, segment, .. }) = plan {
            record.put_back(segment);
        }
        launched.unwrap_or_else(|| self.launch(seq, rt, None))
    }

    /// Takes blocks out of the record that may run next to a real-time kernel of `rt_blocks` while
    /// earlier padding has `occupied` places; `None`: there are none, there is no room, or they
    /// can't be stopped.
    fn plan<'a>(&self, be: &Be<'a, V>, rt_blocks: u32, occupied: u32) -> Option<Plan<'a, V>> {
        let &Be { launch, record, padding } = be;
        let kernel = launch.kernel();
        let is_guarded = kernel.guarded().is_some() && launch.blocks() <= MAX_BLOCKS;
        if !is_guarded || kernel.check_words(launch.args().words().len()).is_err() {
            return None;
        }
        // At a time no more than there is room for on units of their own. The device spreads the
        // real-time blocks over all units, where the plan has several of them on each.
        let facts = self.gpu.facts();
        let free = facts.units.saturating_sub(padding.rt_units.max(rt_blocks));
        let per_unit = padding.be_per_unit.min(facts.padding_per_unit);
        let room = free.saturating_mul(per_unit).saturating_sub(occupied);
        if room == 0 {
            return None;
        }
        // As many in turn as were planned for a place, however few places there are.
        let planned = (facts.units - padding.rt_units).saturating_mul(padding.be_per_unit);
        let turns = kernel.turns().map_or(1, |_| padding.be_blocks.div_ceil(planned));
        let segment = record.take(padding.be_blocks.min(room.saturating_mul(turns)))?;
        let width = segment.count.min(room);
        Some(Plan { launch, record, segment, width })
    }
}
