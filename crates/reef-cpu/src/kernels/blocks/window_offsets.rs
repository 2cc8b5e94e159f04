//! Pixels that a window sees.

use reef_op::{Tensor, Window};

/// A window over an image.
#[derive(Debug)]
pub(in crate::kernels) struct WindowOffsets {
    window: Window,
    /// Rows and columns of the image.
    input: [usize; 2],
    /// Rows and columns of windows.
    output: [usize; 2],
}

impl WindowOffsets {
    pub(in crate::kernels) fn new(window: Window, input: &Tensor, output: &Tensor) -> Self {
        let size = |tensor: &Tensor| [tensor.height, tensor.width];
        Self { window, input: size(input), output: size(output) }
    }

    #[cfg(target_arch = "x86_64")]
    pub(in crate::kernels) fn window(&self) -> &Window {
        &self.window
    }

    /// Positions within the window.
    pub(in crate::kernels) fn count(&self) -> usize {
        self.window.size.iter().product()
    }

    /// Calls `visit(position within the window, input pixel)` for all that output pixel `pixel`
    /// sees inside of the image, until it gives `false`, and gives what the last call gave.
    #[inline(always)]
    pub(in crate::kernels) fn visit(
        &self,
        pixel: usize,
        mut visit: impl FnMut(usize, usize) -> bool,
    ) -> bool {
        let [height, width] = self.output;
        let (image, y, x) = (pixel / (height * width), pixel / width % height, pixel % width);
        for row in 0..self.window.size[0] {
            let Some(y) = self.inside(0, y, row) else { continue };
            for column in 0..self.window.size[1] {
                let Some(x) = self.inside(1, x, column) else { continue };
                let tap = row * self.window.size[1] + column;
                if !visit(tap, (image * self.input[0] + y) * self.input[1] + x) {
                    return false;
                }
            }
        }
        true
    }

    /// Position in the image of position `at` of the window that is `output` steps from the edge.
    #[inline(always)]
    fn inside(&self, axis: usize, output: usize, at: usize) -> Option<usize> {
        let moved = output * self.window.stride[axis] + at;
        let position = moved.checked_sub(self.window.padding[axis])?;
        (position < self.input[axis]).then_some(position)
    }
}
