//! Part of an image that a line of outputs sees.

use crate::kernels::blocks::operand::Operand;
use crate::kernels::images::convolution::gathered::windows::first_element;
use crate::kernels::product::tile::ROWS;
use reef_op::{Conv2d, Window};

/// Most floats of a strip: they are copied between two polls of the stop word, and stay in the L1
/// cache.
const MAX_FLOATS: usize = 10 * 1024;

/// The measures of a strip.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strip {
    window: Window,
    /// Lines: one for each plane and row of the window.
    pub(super) lines: usize,
    /// Floats of each, and from one to the next.
    pub(super) pitch: usize,
}

impl Strip {
    /// `None` if the strips of `op`, which was checked, were too long.
    pub(super) fn of(op: &Conv2d) -> Option<Self> {
        let Window { size, stride, padding } = op.window;
        // A whole tile is read, also where the line ends before.
        let last = (op.output.width.next_multiple_of(ROWS) - 1) * stride[1];
        let pitch = (last + size[1]).max(padding[1] + op.input.width).next_multiple_of(16);
        let lines = op.input.channels * size[0];
        (pitch * lines <= MAX_FLOATS).then_some(Self { window: op.window, lines, pitch })
    }

    pub(super) fn len(&self) -> usize {
        self.lines * self.pitch
    }

    /// Fills `to` with what line `y` of the outputs of an image sees.
    ///
    /// # Safety
    ///
    /// `input` is that of the convolution and isn't written meanwhile.
    pub(super) unsafe fn fill(&self, input: &Operand, [image, y]: [usize; 2], to: &mut [f32]) {
        let Window { size, stride, padding } = self.window;
        let tensor = &input.tensor;
        for (line, to) in to.chunks_exact_mut(self.pitch).take(self.lines).enumerate() {
            let (channel, row) = (line / size[0], line % size[0]);
            let row = (y * stride[0] + row).checked_sub(padding[0]);
            let Some(row) = row.filter(|&row| row < tensor.height) else {
                to.fill(0.0);
                continue;
            };
            let lines = image * tensor.of * tensor.height + row;
            let from = first_element(input, channel).wrapping_add(lines * tensor.width);
            // SAFETY: the line lies in the storage, which `Operand::new` found inside its buffer,
            // and nothing writes it meanwhile: `fill` demands it.
            let from = unsafe { std::slice::from_raw_parts(from, tensor.width) };
            let (left, rest) = to.split_at_mut(padding[1]);
            let (middle, right) = rest.split_at_mut(tensor.width);
            left.fill(0.0);
            middle.copy_from_slice(from);
            right.fill(0.0);
        }
    }
}
