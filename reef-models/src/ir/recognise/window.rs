//! Windows of steps, which have a padding for each side and may be dilated, as windows of images,
//! which have neither.

use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use reef_op::Window;

/// Taps of the largest window after its gaps were filled.
const MAX_TAPS: usize = 1 << 12;

/// A window as steps have it, rows first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sliding {
    pub(super) size: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) before: [usize; 2],
    pub(super) after: [usize; 2],
    /// Number of windows.
    pub(super) count: [usize; 2],
}

impl Sliding {
    /// From the first tap to the last, both included.
    fn reach(&self, i: usize) -> usize {
        (self.size[i] - 1) * self.dilation[i] + 1
    }

    /// The window of a pool over `[rows, columns]`.
    ///
    /// Padding of images is the same on both sides; on the far side that makes no difference as
    /// long as it gives as many windows.
    pub(super) fn of_pool(&self, over: [usize; 2]) -> Result<Window, String> {
        let Self { size, stride, before, after, count, .. } = *self;
        if self.dilation != [1; 2] {
            return Err(format!("dilations {:?} of pools are not supported", self.dilation));
        }
        let pads = [before, after];
        if (0..2).any(|i| before[i] >= size[i] || after[i] >= size[i]) {
            return Err(format!("padding {pads:?} of a window of {size:?}"));
        }
        let window = Window { size, stride, padding: before };
        let fits = (0..2).all(|i| over[i] + 2 * before[i] >= size[i]);
        if !fits || window.over(over) != count {
            return Err(format!(
                "padding {pads:?} that makes {count:?} of {over:?} is not supported"
            ));
        }
        Ok(window)
    }

    /// The window of a convolution over `[rows, columns]`: gaps of a dilation, and what one side
    /// has more of padding than the other, become [weights](Self::spread) of zero.
    pub(super) fn of_conv(&self, over: [usize; 2]) -> Result<Window, String> {
        if (0..2).any(|i| self.size[i].saturating_mul(self.dilation[i]) > MAX_TAPS) {
            let Self { size, stride, dilation, .. } = self;
            return Err(format!("window {size:?}, strides {stride:?}, dilations {dilation:?}"));
        }
        let padding = [0, 1].map(|i| self.before[i].max(self.after[i]));
        let larger = |i: usize| self.reach(i) + self.before[i].abs_diff(self.after[i]);
        let window = Window { size: [larger(0), larger(1)], stride: self.stride, padding };
        let taps = window.size[0].checked_mul(window.size[1]);
        if window.size != self.size && taps.is_none_or(|taps| taps > MAX_TAPS) {
            return Err(format!("a window of {:?} with gaps", window.size));
        }
        let fits = (0..2).all(|i| over[i] + 2 * padding[i] >= window.size[i]);
        if !fits || window.over(over) != self.count {
            return Err(format!("windows {:?} over {over:?} are not supported", self.count));
        }
        Ok(window)
    }

    /// Weights for the [window of images](Self::of_conv).
    pub(super) fn spread(
        &self,
        window: &Window,
        weights: List<f32>,
        ledger: &Ledger,
    ) -> Result<List<f32>, String> {
        if window.size == self.size {
            return Ok(weights);
        }
        let taps = self.size[0] * self.size[1];
        let [rows, columns] = window.size;
        let (filters, all) = (weights.len() / taps, rows * columns);
        let skipped = [0, 1].map(|i| self.after[i].saturating_sub(self.before[i]));
        let mut spread = List::filled(0.0, filters.saturating_mul(all), ledger)?;
        for (to, from) in spread.chunks_exact_mut(all).zip(weights.chunks_exact(taps)) {
            for (tap, &weight) in from.iter().enumerate() {
                let row = skipped[0] + tap / self.size[1] * self.dilation[0];
                let column = skipped[1] + tap % self.size[1] * self.dilation[1];
                to[row * columns + column] = weight;
            }
        }
        Ok(spread)
    }
}
