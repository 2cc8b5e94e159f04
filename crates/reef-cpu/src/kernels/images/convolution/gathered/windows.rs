//! Windows of an image as rows of a matrix, a block's share at a time.
//!
//! Row `p` holds what output pixel `p` sees: a few runs, each a part of a line (a row of the
//! image). Clipping a run to its line is all that padding takes.

use super::runs::{Columns, Run};
use crate::kernels::blocks::operand::{Operand, is_planar};
use reef_op::{Conv2d, Window};
use std::ops::Range;

/// Positions of the windows of an image.
#[derive(Debug)]
pub(super) struct Gather {
    window: Window,
    /// Rows of the image.
    height: usize,
    /// Rows and columns of windows.
    output: [usize; 2],
    /// Floats of a line; also from one to the next.
    line: usize,
    /// Floats of a window's line.
    span: usize,
    /// Floats from a window's left edge to that of its neighbour, if the stride were 1.
    step: usize,
    /// Floats from an image to the next.
    image: usize,
}

impl Gather {
    pub(super) fn new(op: &Conv2d) -> Self {
        let input = &op.input;
        let step = if is_planar(input) { 1 } else { input.of };
        Self {
            window: op.window,
            height: input.height,
            output: [op.output.height, op.output.width],
            line: input.width * step,
            span: op.window.size[1] * step,
            step,
            image: input.of * input.height * input.width,
        }
    }

    /// The matrix' columns in chunks of `depth`.
    pub(super) fn chunks(&self, op: &Conv2d, depth: usize) -> Vec<Columns> {
        Columns::chunks(op, self.line, depth)
    }

    /// Fills rows of `columns` for output pixels `pixels`.
    ///
    /// Whole vectors are copied where that is faster: up to [`SLACK`] floats behind each row are
    /// overwritten.
    ///
    /// # Safety
    ///
    /// - `start` is the first element of the first channel of the input that was passed to `new`.
    /// - `to` has `pixels.len()` rows of `pitch` floats, which the caller owns, and [`SLACK`] more.
    ///   A row of `columns` has at most `pitch` floats.
    /// - The input isn't written meanwhile.
    pub(super) unsafe fn rows(
        &self,
        start: *const f32,
        columns: &Columns,
        pixels: Range<usize>,
        to: *mut f32,
        pitch: usize,
    ) {
        let [height, width] = self.output;
        let (mut x, y) = (pixels.start % width, pixels.start / width);
        let (mut y, mut image) = (y % height, y / height);
        for row in 0..pixels.len() {
            let corner = Corner {
                image: start.wrapping_add(image * self.image),
                y: (y * self.window.stride[0]) as isize - self.window.padding[0] as isize,
                x: ((x * self.window.stride[1]) as isize - self.window.padding[1] as isize)
                    * self.step as isize,
            };
            // SAFETY: `to` has a row for each pixel and `SLACK` floats more, and the input isn't
            // written: `rows` demands it. The corner is that of a window over the input, which is
            // inside of the image in the first case.
            unsafe {
                if self.is_inside(&corner) {
                    self.whole_row(&corner, &columns.runs, to.add(row * pitch));
                } else {
                    self.row(&corner, &columns.runs, to.add(row * pitch));
                }
            }
            x += 1;
            if x == width {
                (x, y) = (0, y + 1);
            }
            if y == height {
                (y, image) = (0, image + 1);
            }
        }
    }

    /// Returns whether a window needs no clipping.
    #[inline]
    fn is_inside(&self, corner: &Corner) -> bool {
        let last = self.height as isize - self.window.size[0] as isize;
        (0..=last).contains(&corner.y)
            && corner.x >= 0
            && corner.x as usize + self.span.max(self.step * SLACK) <= self.line
    }

    /// # Safety
    ///
    /// Like [`rows`](Self::rows), for one row whose window is inside of the image.
    #[inline]
    unsafe fn whole_row(&self, corner: &Corner, runs: &[Run], mut to: *mut f32) {
        let first = corner.image.wrapping_offset(corner.y * self.line as isize + corner.x);
        for run in runs {
            let from = first.wrapping_add(run.offset);
            // SAFETY: the window is inside, and `to` has room for all runs; with a step of 1 the
            // line goes on behind a short run, as `is_inside` has checked, or it is another one's.
            unsafe {
                if self.step == 1 && run.len < SLACK && run.start == 0 {
                    copy_few(from, to);
                } else {
                    copy(from, to, run.len);
                }
                to = to.add(run.len);
            }
        }
    }

    /// # Safety
    ///
    /// Like [`rows`](Self::rows), for one row.
    #[cold]
    unsafe fn row(&self, corner: &Corner, runs: &[Run], mut to: *mut f32) {
        for run in runs {
            let y = corner.y + run.row as isize;
            let line = (y >= 0 && (y as usize) < self.height).then(|| {
                corner.image.wrapping_add(run.plane).wrapping_offset(y * self.line as isize)
            });
            // SAFETY: `to` has room for all runs; a line that is in the image can be read.
            unsafe {
                clipped(line, corner.x + run.start as isize, self.line as isize, to, run.len);
                to = to.add(run.len);
            }
        }
    }
}

/// The upper left corner of a window, which may be outside of the image.
struct Corner {
    image: *const f32,
    /// Distance in lines.
    y: isize,
    /// Distance in floats of the line.
    x: isize,
}

/// Floats behind the end of a row that [`Gather::rows`] may overwrite.
pub(super) const SLACK: usize = 8;

/// Copies [`SLACK`] floats: a call of memcpy takes longer than the seven of a first convolution.
///
/// # Safety
///
/// They can be read and written.
#[inline]
unsafe fn copy_few(from: *const f32, to: *mut f32) {
    // SAFETY: `SLACK` floats can be read and written: `copy_few` demands it. Arrays of floats are
    // plain memory.
    unsafe {
        to.cast::<[f32; SLACK]>().write_unaligned(from.cast::<[f32; SLACK]>().read_unaligned())
    }
}

/// Copies `len` floats.
///
/// # Safety
///
/// They can be read and written, and don't overlap.
#[inline]
unsafe fn copy(from: *const f32, to: *mut f32, len: usize) {
    // SAFETY: `len` floats can be read and written, and don't overlap: `copy` demands it.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

/// Copies what of `x..x + len` is in a line of `width` floats; zeros for the rest and for no line.
///
/// # Safety
///
/// The line can be read, and `len` floats written.
#[inline]
unsafe fn clipped(line: Option<*const f32>, x: isize, width: isize, to: *mut f32, len: usize) {
    // SAFETY: `len` floats can be written, and only those inside the line are read.
    unsafe {
        std::ptr::write_bytes(to, 0, len);
        let (first, end) = (x.max(0), (x + len as isize).min(width));
        if let Some(line) = line
            && first < end
        {
            let skip = (first - x) as usize;
            std::ptr::copy_nonoverlapping(line.offset(first), to.add(skip), (end - first) as usize);
        }
    }
}

/// The first element of an input's channel `channel`, for [`Gather::rows`].
pub(in crate::kernels) fn first_element(input: &Operand, channel: usize) -> *const f32 {
    let tensor = &input.tensor;
    let plane = if is_planar(tensor) { tensor.height * tensor.width } else { 1 };
    input.start().wrapping_add((tensor.first + channel) * plane)
}
