//! The device in two parts by compute units, one for each class of work (CU masks). Nothing is preempted
//! between them; it is here to be compared with.
//!
//! Streams with a mask have no priority, each has a hardware queue of its own, and the runtime orders
//! them with its null stream, which nothing here uses.

use crate::driver::{BACKEND, Driver, Handle};
use reef_core::{Error, Priority, Result};

/// A part for real-time work and the rest for best-effort work: a bit for each unit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Split {
    real_time: Vec<u32>,
    best_effort: Vec<u32>,
}

impl Split {
    /// Gives real-time work `part` of `units` units. Neighbouring bits are units of different shader
    /// engines, so both parts have some of each.
    ///
    /// # Errors
    ///
    /// `Invalid` if nothing would be left for one of the two: an empty mask means all units.
    pub(crate) fn new(units: u32, part: u32) -> Result<Self> {
        if part == 0 || part >= units {
            let text = format!("{BACKEND}: split={part}, but the device has {units} compute units");
            return Err(Error::Invalid(text));
        }
        let mask = |of: std::ops::Range<u32>| {
            let mut words = vec![0; units.div_ceil(32) as usize];
            of.for_each(|unit| words[unit as usize / 32] |= 1 << (unit % 32));
            words
        };
        Ok(Self { real_time: mask(0..part), best_effort: mask(part..units) })
    }

    /// Opens a stream in the part of this class.
    pub(crate) fn stream(&self, driver: &Driver, class: Priority) -> Result<Handle> {
        let mask = if class == Priority::RealTime { &self.real_time } else { &self.best_effort };
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointers are valid for the call, and the mask is as long as we say.
        unsafe {
            driver.hipExtStreamCreateWithCUMask(&mut stream, mask.len() as u32, mask.as_ptr())
        }?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_disjoint_and_all() {
        let split = Split::new(60, 20).unwrap();
        assert_eq!(split.real_time, [0x000f_ffff, 0]);
        assert_eq!(split.best_effort, [0xfff0_0000, 0x0fff_ffff]);
        let split = Split::new(64, 40).unwrap();
        assert_eq!(split.real_time, [u32::MAX, 0xff]);
        assert_eq!(split.best_effort, [0, 0xffff_ff00]);
    }

    #[test]
    fn neither_part_may_be_empty() {
        for part in [0, 60, 61, u32::MAX] {
            assert!(Split::new(60, part).is_err(), "{part}");
        }
    }
}
