//! Operands from other lanes.

use super::inst::Dpp;
use super::registers::Lanes;

impl Dpp {
    /// The lane that `lane` reads, if there is one.
    fn source(&self, lane: usize) -> Option<usize> {
        let (row, at) = (lane & !15, lane & 15);
        let n = usize::from(self.control & 15);
        match self.control {
            0..=0xff => Some(lane & !3 | usize::from(self.control) >> (2 * (lane & 3)) & 3),
            0x101..=0x10f => (at + n < 16).then_some(lane + n),
            0x111..=0x11f => (at >= n).then(|| lane - n),
            0x121..=0x12f => Some(row + (at + 16 - n) % 16),
            0x130 => (lane < 63).then_some(lane + 1),
            0x134 => Some((lane + 1) % 64),
            0x138 => lane.checked_sub(1),
            0x13c => Some((lane + 63) % 64),
            0x140 => Some(row + 15 - at),
            0x141 => Some(lane ^ 7),
            0x142 => row.checked_sub(1),
            0x143 => (lane >= 32).then_some(31),
            _ => None,
        }
    }

    /// Returns whether the control is one that gfx906 has.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.control, 0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f)
            || matches!(self.control, 0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143)
    }

    /// Values that the lanes read: zero where the source is outside or inactive.
    pub(super) fn read(&self, from: &Lanes<u32>, exec: u64) -> Lanes<u32> {
        let source = |lane| self.source(lane).filter(|from| exec >> from & 1 != 0);
        std::array::from_fn(|lane| source(lane).map_or(0, |lane| from[lane]))
    }

    /// The lanes of `exec` that are written.
    pub(super) fn active(&self, exec: u64) -> u64 {
        let on = |lane: usize| {
            let rows = self.rows >> (lane / 16) & 1 != 0;
            let banks = self.banks >> (lane / 4 % 4) & 1 != 0;
            let source = self.source(lane).is_some_and(|from| exec >> from & 1 != 0);
            rows && banks && (self.zero || source)
        };
        (0..64).filter(|&lane| on(lane)).fold(0, |mask, lane| mask | 1 << lane) & exec
    }
}
