//! The columns of the matrix of windows as runs of floats.
//!
//! They come in the order in which [`pack`](crate::kernels::images::pack::pack()) put the
//! weights. That order follows memory, so a row is a few runs:
//!
//! ```text
//! native, all channels:  one run per row of the window
//! native, some channels: one run per position of the window
//! planar:                one run per channel and row of the window
//! ```

use crate::kernels::blocks::operand::is_planar;
use reef_op::Conv2d;

/// Adjoining floats of a line that adjoin in the matrix too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    /// Start of its line's plane, from the image on.
    pub(super) plane: usize,
    /// Row of the window.
    pub(super) row: usize,
    /// Start, from the window's left edge on.
    pub(super) start: usize,
    /// Start, from the window's upper left corner on.
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// The runs of some columns of the matrix.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) runs: Vec<Run>,
    /// Columns.
    pub(super) depth: usize,
}

impl Columns {
    /// All columns of `op`'s matrix in chunks of `depth`; lines of the image are `line` floats.
    pub(super) fn chunks(op: &Conv2d, line: usize, depth: usize) -> Vec<Self> {
        let floats: Vec<_> = positions(op).collect();
        let chunk = |floats: &[_]| Self { runs: runs(floats, line), depth: floats.len() };
        floats.chunks(depth).map(chunk).collect()
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
fn runs(positions: &[[usize; 3]], line: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &[plane, row, start] in positions {
        match runs.last_mut() {
            Some(run) if [run.plane, run.row, run.start + run.len] == [plane, row, start] => {
                run.len += 1
            }
            _ => runs.push(Run { plane, row, start, offset: plane + row * line + start, len: 1 }),
        }
    }
    runs
}
