//! Windows of a picture as rows of a matrix, a block's share at a time.
//!
//! Row `p` holds what output pixel `p` sees, in the order in which [`pack`](super::pack) put the
//! weights. That order follows memory, so a row is a few runs:
//!
//! ```text
//! native, all channels:  one run per row of the window
//! native, some channels: one run per position of the window
//! planar:                one run per channel and row of the window
//! ```
//!
//! A run is a part of a line (a row of the picture), and clipping it to the line is all that padding
//! takes.

use super::operand::{Operand, is_planar};
use reef_core::op::{Conv2d, Window};
use std::ops::Range;

/// Adjoining floats of a line that adjoin in the matrix too.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Where its line's plane starts, from the image on.
    plane: usize,
    /// Row of the window.
    row: usize,
    /// Where it starts, from the window's left edge on.
    start: usize,
    len: usize,
}

/// The runs of some columns of the matrix.
#[derive(Debug)]
pub(super) struct Columns {
    runs: Vec<Run>,
    /// Columns.
    pub depth: usize,
}

/// How to find the windows of a picture.
#[derive(Debug)]
pub(super) struct Gather {
    window: Window,
    /// Rows of the picture.
    height: usize,
    /// Rows and columns of windows.
    output: [usize; 2],
    /// Floats of a line; also from one to the next.
    line: usize,
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
            step,
            image: input.of * input.height * input.width,
        }
    }

    /// The matrix' columns in chunks of `depth`.
    pub(super) fn chunks(&self, op: &Conv2d, depth: usize) -> Vec<Columns> {
        let floats: Vec<_> = positions(op).collect();
        floats
            .chunks(depth)
            .map(|chunk| Columns { runs: runs(chunk), depth: chunk.len() })
            .collect()
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
    /// - Nobody writes the input.
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
            // SAFETY: the row is the caller's, and the corner one of a window over the input.
            unsafe { self.row(&corner, &columns.runs, to.add(row * pitch)) };
            x += 1;
            if x == width {
                (x, y) = (0, y + 1);
            }
            if y == height {
                (y, image) = (0, image + 1);
            }
        }
    }

    /// # Safety
    ///
    /// As [`rows`](Self::rows), for one row.
    #[inline]
    unsafe fn row(&self, corner: &Corner, runs: &[Run], mut to: *mut f32) {
        for run in runs {
            let y = corner.y + run.row as isize;
            let x = corner.x + run.start as isize;
            let inside = y >= 0 && (y as usize) < self.height;
            let line = corner.image.wrapping_add(run.plane).wrapping_offset(y * self.line as isize);
            // SAFETY: `to` has room for all runs; the line is read only where it is in the picture.
            unsafe {
                if inside && x >= 0 && x as usize + run.len <= self.line {
                    copy(line.offset(x), to, run.len, self.readable(x, run));
                } else {
                    let line = inside.then_some(line);
                    clipped(line, x, self.line as isize, to, run.len);
                }
                to = to.add(run.len);
            }
        }
    }

    /// Floats from `x` on that belong to the input: of a native line, those behind a run may be
    /// channels of another tensor, which somebody may be writing.
    #[inline]
    fn readable(&self, x: isize, run: &Run) -> usize {
        if self.step == 1 { self.line - x as usize } else { run.len }
    }
}

/// The upper left corner of a window, which may be outside of the picture.
struct Corner {
    image: *const f32,
    /// In lines.
    y: isize,
    /// In floats of the line.
    x: isize,
}

/// Floats behind the end of a row that [`Gather::rows`] may overwrite.
pub(super) const SLACK: usize = 8;

/// Copies `len` floats of `left` that can be read; may overwrite up to [`SLACK`] behind them.
///
/// # Safety
///
/// `left` floats can be read, and `len` + [`SLACK`] written.
#[inline]
unsafe fn copy(from: *const f32, to: *mut f32, len: usize, left: usize) {
    // A call of memcpy takes longer than the seven floats of a first convolution's runs.
    let len = if len <= SLACK && left >= SLACK { SLACK } else { len };
    // SAFETY: the caller's promise.
    unsafe {
        if len == SLACK {
            to.cast::<[f32; SLACK]>().write_unaligned(from.cast::<[f32; SLACK]>().read_unaligned());
        } else {
            std::ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// Copies what of `x..x + len` is in a line of `width` floats; zeros for the rest and for no line.
///
/// # Safety
///
/// The line can be read, and `len` floats written.
#[cold]
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

/// For each column of the matrix: plane, row of the window, float from the window's left edge on.
fn positions(op: &Conv2d) -> Box<dyn Iterator<Item = [usize; 3]>> {
    let [rows, columns] = op.window.size;
    let (channels, pitch) = (op.input.channels / op.groups, op.input.of);
    let plane = op.input.height * op.input.width;
    if is_planar(&op.input) {
        Box::new((0..channels).flat_map(move |channel| {
            (0..rows).flat_map(move |row| (0..columns).map(move |x| [channel * plane, row, x]))
        }))
    } else {
        Box::new((0..rows).flat_map(move |row| {
            (0..columns).flat_map(move |x| (0..channels).map(move |c| [0, row, x * pitch + c]))
        }))
    }
}

/// Joins positions that adjoin.
fn runs(positions: &[[usize; 3]]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &[plane, row, start] in positions {
        match runs.last_mut() {
            Some(run) if [run.plane, run.row, run.start + run.len] == [plane, row, start] => {
                run.len += 1
            }
            _ => runs.push(Run { plane, row, start, len: 1 }),
        }
    }
    runs
}

/// The first element of an input's channel `channel`, for [`Gather::rows`].
pub(super) fn first_element(input: &Operand, channel: usize) -> *const f32 {
    let tensor = &input.tensor;
    let plane = if is_planar(tensor) { tensor.height * tensor.width } else { 1 };
    input.start().wrapping_add((tensor.first + channel) * plane)
}
