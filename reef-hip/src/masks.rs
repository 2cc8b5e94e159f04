//! Compute units that the streams of each class run on (CU masks).
//!
//! Best-effort streams leave one unit alone. What stops them is a word that a kernel of one wave
//! writes, in a stream of the highest priority: on a device that is full it would wait for a place
//! until a block ends. Priorities give it the next place that is free, and only a unit that
//! best-effort work never takes has one at once, whatever registers and shared memory the blocks
//! use and however many clients there are.
//!
//! With `split=N` each class has units of its own, and nothing is preempted; that is here to be
//! compared with.
//!
//! Streams with a mask have the middle priority, each has a hardware queue of its own, and the
//! runtime orders them with its null stream, which nothing here uses.

use crate::driver::{BACKEND, Driver, Handle};
use reef_core::{Error, Result};
use reef_gpu::StreamKind;
use std::ops::Range;

/// A bit for each unit.
type Mask = Vec<u32>;

/// Units of real-time streams, all if there is no mask, and of best-effort streams.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Masks {
    real_time: Option<Mask>,
    best_effort: Mask,
}

impl Masks {
    /// Gives real-time work `part` of `units` units. Neighbouring bits are units of different
    /// shader engines, so both parts have some of each.
    ///
    /// # Errors
    ///
    /// `Invalid` if nothing would be left for one of the two: an empty mask means all units.
    pub(crate) fn split(units: u32, part: u32) -> Result<Self> {
        if part == 0 || part >= units {
            return Err(Error::invalid(
                format!("{BACKEND} option split"),
                format!("must be less than the device's {units} units, got {part}"),
            ));
        }
        let real_time = Some(mask(units, 0..part));
        Ok(Self { real_time, best_effort: mask(units, part..units) })
    }

    /// Leaves the last of `units` units to all but best-effort work; `None` if there is no other.
    pub(crate) fn leave_one(units: u32) -> Option<Self> {
        let best_effort = |units| mask(units, 0..units - 1);
        (units > 1).then(|| Self { real_time: None, best_effort: best_effort(units) })
    }

    /// Number of units that best-effort streams run on.
    pub(crate) fn be_units(&self) -> u32 {
        self.best_effort.iter().map(|word| word.count_ones()).sum()
    }

    /// Opens a stream on the units of this kind; `None` if it may run on all.
    pub(crate) fn stream(&self, driver: &Driver, kind: StreamKind) -> Option<Result<Handle>> {
        let mask = match kind {
            StreamKind::RealTime => self.real_time.as_ref()?,
            StreamKind::BestEffort => &self.best_effort,
        };
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointers are valid for the call, and the mask is as long as we say.
        let opened = unsafe {
            driver.hipExtStreamCreateWithCUMask(&mut stream, mask.len() as u32, mask.as_ptr())
        };
        Some(opened.map(|()| stream))
    }
}

fn mask(units: u32, of: Range<u32>) -> Mask {
    let mut words = vec![0; units.div_ceil(32) as usize];
    of.for_each(|unit| words[unit as usize / 32] |= 1 << (unit % 32));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_disjoint_and_all() {
        let masks = Masks::split(60, 20).unwrap();
        assert_eq!(masks.real_time.unwrap(), [0x000f_ffff, 0]);
        assert_eq!(masks.best_effort, [0xfff0_0000, 0x0fff_ffff]);
        let masks = Masks::split(64, 40).unwrap();
        assert_eq!(masks.real_time.unwrap(), [u32::MAX, 0xff]);
        assert_eq!(masks.best_effort, [0, 0xffff_ff00]);
    }

    #[test]
    fn neither_part_may_be_empty() {
        for part in [0, 60, 61, u32::MAX] {
            assert!(Masks::split(60, part).is_err(), "{part}");
        }
    }

    #[test]
    fn best_effort_work_leaves_one_unit_where_there_are_two() {
        let masks = Masks::leave_one(60).unwrap();
        assert_eq!((masks.real_time, masks.best_effort), (None, vec![u32::MAX, 0x07ff_ffff]));
        assert_eq!(Masks::leave_one(60).unwrap().be_units(), 59);
        assert_eq!(Masks::leave_one(2).unwrap().best_effort, [0b1]);
        assert_eq!(Masks::leave_one(1), None, "an empty mask would mean all units");
    }
}
