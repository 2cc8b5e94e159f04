//! Windows of ONNX, which have a padding for each side and may be dilated, as windows that have
//! neither.

use super::fault::{Result, few};
use super::node::{Node, size};
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use reef_core::op::Window;

/// Taps of the largest window after its gaps were filled.
const MAX_TAPS: usize = 1 << 12;

/// A window as a node describes it, rows first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sliding {
    size: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    before: [usize; 2],
    after: [usize; 2],
    round_up: bool,
}

impl Sliding {
    /// The window of `node` over `[rows, columns]`.
    pub(super) fn of(node: &Node<'_>, size: [usize; 2], over: [usize; 2]) -> Result<Self> {
        let stride = node.pair("strides", 1)?;
        let dilation = node.pair("dilations", 1)?;
        let round_up = node.int("ceil_mode", 0)? != 0;
        let zero = [size, stride, dilation].into_iter().flatten().any(|n| n == 0);
        if zero || size.iter().zip(dilation).any(|(&n, d)| n.saturating_mul(d) > MAX_TAPS) {
            return Err(format!("window {size:?}, strides {stride:?}, dilations {dilation:?}"));
        }
        let window = Self { size, stride, dilation, before: [0; 2], after: [0; 2], round_up };
        let window = window.padded(node, over)?;
        let too_small = |i: usize| over[i] + window.before[i] + window.after[i] < window.reach(i);
        match (0..2).any(too_small) {
            true => Err(format!("a window of {size:?} over {over:?} rows and columns")),
            false => Ok(window),
        }
    }

    fn padded(self, node: &Node<'_>, over: [usize; 2]) -> Result<Self> {
        let pads = node.ints("pads")?;
        match node.text("auto_pad")?.unwrap_or(b"NOTSET") {
            b"NOTSET" => match pads {
                None => Ok(self),
                Some(&[top, left, bottom, right]) => Ok(Self {
                    before: [size("pads", top)?, size("pads", left)?],
                    after: [size("pads", bottom)?, size("pads", right)?],
                    ..self
                }),
                Some(other) => Err(format!("attribute pads = {}, 4 sizes wanted", few(other))),
            },
            b"VALID" => Ok(self),
            b"SAME_UPPER" => Ok(self.same(over, false)),
            b"SAME_LOWER" => Ok(self.same(over, true)),
            other => {
                let start = String::from_utf8_lossy(&other[..other.len().min(16)]);
                Err(format!("attribute auto_pad = {start:?}"))
            }
        }
    }

    /// As many windows as there are strides; the odd zero goes before or after.
    fn same(mut self, over: [usize; 2], lower: bool) -> Self {
        for (i, &n) in over.iter().enumerate() {
            let covered = (n.div_ceil(self.stride[i]) - 1) * self.stride[i] + self.reach(i);
            let zeros = covered.saturating_sub(n);
            let less = zeros / 2;
            [self.before[i], self.after[i]] =
                if lower { [zeros - less, less] } else { [less, zeros - less] };
        }
        self
    }

    /// From the first tap to the last, both included.
    fn reach(&self, i: usize) -> usize {
        (self.size[i] - 1) * self.dilation[i] + 1
    }

    /// Windows along one axis of `n`.
    fn count(&self, i: usize, n: usize) -> usize {
        let steps = n + self.before[i] + self.after[i] - self.reach(i);
        if !self.round_up {
            return steps / self.stride[i] + 1;
        }
        let count = steps.div_ceil(self.stride[i]) + 1;
        // The last window starts on the input, or on the zeros before it.
        if (count - 1) * self.stride[i] >= n + self.before[i] { count - 1 } else { count }
    }

    /// The window of a pool.
    ///
    /// Here padding is the same on both sides; on the far side that makes no difference as long as
    /// it gives as many windows.
    pub(super) fn of_pool(&self, over: [usize; 2], counts_padding: Option<bool>) -> Result<Window> {
        let window = Window { size: self.size, stride: self.stride, padding: self.before };
        let pads = [self.before, self.after];
        if self.dilation != [1; 2] {
            return Err(format!("dilations {:?} are not supported in pools", self.dilation));
        }
        if (0..2).any(|i| self.before[i] >= self.size[i] || self.after[i] >= self.size[i]) {
            return Err(format!("padding {pads:?} of a window of {:?}", self.size));
        }
        let counts = [0, 1].map(|i| self.count(i, over[i]));
        let fits = (0..2).all(|i| over[i] + 2 * self.before[i] >= self.size[i]);
        if !fits || window.over(over) != counts {
            return Err(format!(
                "padding {pads:?} that makes {counts:?} of {over:?} is not supported"
            ));
        }
        let end = |i: usize| (counts[i] - 1) * self.stride[i] + self.size[i];
        let exact = match counts_padding {
            None => true,
            Some(true) => (0..2).all(|i| end(i) <= over[i] + self.before[i] + self.after[i]),
            Some(false) => (0..2).all(|i| self.before[i] == 0 && end(i) <= over[i]),
        };
        match exact {
            true => Ok(window),
            false => {
                Err("means over windows that reach over the edge by different amounts are not \
                          supported (count_include_pad, ceil_mode)"
                    .into())
            }
        }
    }

    /// The window of a convolution, with its weights: gaps of a dilation, and what one side has
    /// more of padding than the other, become weights of zero.
    pub(super) fn of_conv(
        &self,
        weights: List<f32>,
        ledger: &Ledger,
    ) -> Result<(Window, List<f32>)> {
        let padding = [0, 1].map(|i| self.before[i].max(self.after[i]));
        let larger = |i: usize| self.reach(i) + self.before[i].abs_diff(self.after[i]);
        let window = Window { size: [larger(0), larger(1)], stride: self.stride, padding };
        if window.size == self.size {
            return Ok((window, weights));
        }
        let taps = self.size[0] * self.size[1];
        let filters = weights.len() / taps;
        let [rows, columns] = window.size;
        let all = rows.checked_mul(columns).filter(|&n| n <= MAX_TAPS);
        let all = all.ok_or_else(|| format!("a window of {:?} with gaps", window.size))?;
        let skipped = [0, 1].map(|i| self.after[i].saturating_sub(self.before[i]));
        let mut spread = List::filled(0.0, filters.saturating_mul(all), ledger)?;
        for (to, from) in spread.chunks_exact_mut(all).zip(weights.chunks_exact(taps)) {
            for (tap, &weight) in from.iter().enumerate() {
                let row = skipped[0] + tap / self.size[1] * self.dilation[0];
                let column = skipped[1] + tap % self.size[1] * self.dilation[1];
                to[row * columns + column] = weight;
            }
        }
        Ok((window, spread))
    }
}
