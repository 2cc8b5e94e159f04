//! Types of `reef-core` and `reef-op` as parts of messages, and back.

use crate::messages::{BlocksLeft, ColocationKind, PackedSpec, Traced};
use reef_core::{Blocks, Caps, Colocation, PreemptLevel, Priority, Seq, Span};
use reef_op::PackedInput;
use std::time::Duration;

/// Level of a number.
pub(crate) fn level(number: u8) -> Option<PreemptLevel> {
    PreemptLevel::ALL.get(usize::from(number)).copied()
}

/// Time of another clock, which is ahead by this number of nanoseconds.
pub(crate) fn shifted(at: Duration, nanos: i64) -> Duration {
    let shift = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { at.saturating_sub(shift) } else { at.saturating_add(shift) }
}

impl From<ColocationKind> for Colocation {
    fn from(kind: ColocationKind) -> Self {
        match kind {
            ColocationKind::Padded => Self::Padded,
            ColocationKind::Capped { short, long } => {
                Self::Capped(Caps { short, long, percent: 100 })
            }
            ColocationKind::Never => Self::Never,
        }
    }
}

impl From<Colocation> for ColocationKind {
    fn from(colocation: Colocation) -> Self {
        match colocation {
            Colocation::Padded => Self::Padded,
            Colocation::Capped(Caps { short, long, .. }) => Self::Capped { short, long },
            Colocation::Never => Self::Never,
        }
    }
}

impl From<&Blocks> for BlocksLeft {
    fn from(blocks: &Blocks) -> Self {
        let left = blocks.ranges().iter().map(|range| (range.start, range.end)).collect();
        Self { total: blocks.total(), node: blocks.node() as u64, left }
    }
}

impl TryFrom<BlocksLeft> for Blocks {
    type Error = reef_core::Error;

    fn try_from(blocks: BlocksLeft) -> reef_core::Result<Self> {
        let left = blocks.left.into_iter().map(|(start, end)| start..end).collect();
        Self::new(blocks.total, blocks.node as usize, left)
    }
}

impl From<Span> for Traced {
    fn from(span: Span) -> Self {
        Self {
            unit: span.unit,
            queue: span.queue,
            is_real_time: span.priority == Priority::RealTime,
            padding: span.padding,
            seq: span.seq.0,
            block: span.block,
            times: [span.begin, span.end].map(|time| time.as_nanos() as u64),
            stopped: span.stopped,
            name: span.name.into_owned(),
        }
    }
}

impl From<Traced> for Span {
    fn from(traced: Traced) -> Self {
        let [begin, end] = traced.times.map(Duration::from_nanos);
        let mut span = Self::new(traced.name, traced.unit, begin, end);
        (span.queue, span.padding) = (traced.queue, traced.padding);
        if traced.is_real_time {
            span.priority = Priority::RealTime;
        }
        (span.seq, span.block, span.stopped) = (Seq(traced.seq), traced.block, traced.stopped);
        span
    }
}

impl From<PackedSpec> for PackedInput {
    fn from(spec: PackedSpec) -> Self {
        let PackedSpec { input, elements, outputs, terms, bytes } = spec;
        let pair = |pair: [u64; 2]| pair.map(|number| number as usize);
        Self {
            input: input as usize,
            elements: elements as usize,
            outputs: pair(outputs),
            terms: pair(terms),
            bytes: bytes as usize,
        }
    }
}

impl From<PackedInput> for PackedSpec {
    fn from(packed: PackedInput) -> Self {
        let PackedInput { input, elements, outputs, terms, bytes } = packed;
        let pair = |pair: [usize; 2]| pair.map(|number| number as u64);
        Self {
            input: input as u64,
            elements: elements as u64,
            outputs: pair(outputs),
            terms: pair(terms),
            bytes: bytes as u64,
        }
    }
}
