//! Parts of registers as operands and results.

use super::inst::Sdwa;
use super::registers::Lanes;

/// First bit and width of a selection.
const fn field(select: u8) -> (u32, u32) {
    match select {
        0..=3 => (8 * select as u32, 8),
        4 | 5 => (16 * (select as u32 - 4), 16),
        _ => (0, 32),
    }
}

impl Sdwa {
    pub(super) fn read(&self, k: usize, from: &Lanes<u32>) -> Lanes<u32> {
        let (first, width) = field(self.src[k]);
        let up = 32 - width;
        from.map(|value| {
            let top = value >> first << up;
            if self.sext[k] { (top as i32 >> up) as u32 } else { top >> up }
        })
    }

    pub(super) fn write(&self, value: &Lanes<u32>, old: &Lanes<u32>) -> Lanes<u32> {
        let (first, width) = field(self.dst);
        let mask = (u32::MAX >> (32 - width)) << first;
        let mut out = *old;
        for lane in 0..64 {
            let part = value[lane] << first & mask;
            out[lane] = match self.unused {
                2 => old[lane] & !mask | part,
                1 => {
                    let up = 32 - width - first;
                    ((part << up) as i32 >> up) as u32
                }
                _ => part,
            };
        }
        out
    }
}
