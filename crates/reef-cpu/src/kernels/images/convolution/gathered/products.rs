//! A block's way from inputs to sums.

use super::block::{Conv, Scratch};
use super::runs::Columns;
use super::windows::first_element;
use crate::kernels::blocks::plan::Share;
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::product::multiply::multiply;
use crate::kernels::product::tile::{COLUMNS, Hints, ROWS, Tile, part_of_panel};

/// Windows that are gathered between two polls of the stop word.
const GATHERED: usize = 16;

impl Conv {
    /// Gathers a share's windows. Gives `false` if the block should stop.
    pub(super) fn gather(
        &self,
        chunk: &Columns,
        share: &Share,
        scratch: &Scratch,
        stop: StopToken<'_>,
    ) -> bool {
        if self.gathered_pitch == 0 {
            return true;
        }
        let start = first_element(&self.input, share.group * self.group_inputs);
        for row in (0..share.pixels.len()).step_by(GATHERED) {
            if stop.is_set() {
                return false;
            }
            let first = share.pixels.start + row;
            let pixels = first..share.pixels.end.min(first + GATHERED);
            let to = scratch.gathered.wrapping_add(row * self.gathered_pitch);
            // SAFETY: scratch memory has a row for each pixel of a share. The block has borrowed
            // the input, so nothing writes it meanwhile.
            unsafe { self.gather.rows(start, chunk, pixels, to, self.gathered_pitch) };
        }
        true
    }

    /// Adds a chunk's terms to the sums of `share`, and brings near what comes `after` it. Gives
    /// `false` if the block should stop.
    pub(super) fn multiply(
        &self,
        chunk: &Columns,
        first_term: usize,
        [share, after]: [&Share; 2],
        scratch: &Scratch,
        stop: StopToken<'_>,
    ) -> bool {
        let last = first_term + chunk.depth == self.shape.depth;
        let (a, a_pitch) = self.rows(first_term, share, scratch);
        for column in (0..share.outputs.len()).step_by(COLUMNS) {
            let b = self.panel(share, column, first_term);
            let next = self.next_panel([share, after], column, first_term, chunk);
            let tiles = share.pixels.len().div_ceil(ROWS);
            let is_last = column + COLUMNS >= share.outputs.len();
            for row in (0..share.pixels.len()).step_by(ROWS) {
                if stop.is_set() {
                    return false;
                }
                let next = part_of_panel(next, chunk.depth, [row / ROWS, tiles]);
                let ahead = if row + ROWS < share.pixels.len() { row + ROWS } else { 0 };
                let ahead = (a.wrapping_add(ahead * a_pitch), a_pitch);
                let copied = self.copied_next([share, after], row, first_term + chunk.depth);
                let ahead = copied.filter(|_| is_last).unwrap_or(ahead);
                let tile = Tile {
                    a: a.wrapping_add(row * a_pitch),
                    a_pitch,
                    b: b.as_ptr(),
                    sums: scratch.sums.wrapping_add(row * scratch.sums_pitch + column),
                    sums_pitch: scratch.sums_pitch,
                    rows: ROWS.min(share.pixels.len() - row),
                    columns: COLUMNS.min(share.outputs.len() - column),
                    depth: chunk.depth,
                    fresh: first_term == 0,
                    hints: self.hints(share, [row, column], next, ahead, last),
                };
                assert!(b.len() >= chunk.depth * COLUMNS);
                // SAFETY: `rows` gives a row per pixel, the panel was measured, and the sums have
                // `block_pixels` rows of `block_outputs`, which is whole panels.
                unsafe { multiply(&tile) };
            }
        }
        true
    }

    /// The matrix of windows from column `first_term` on, and its pitch.
    fn rows(&self, first_term: usize, share: &Share, scratch: &Scratch) -> (*const f32, usize) {
        if self.gathered_pitch > 0 {
            return (scratch.gathered, self.gathered_pitch);
        }
        let channel = share.group * self.group_inputs + first_term;
        (self.input.at(share.pixels.start, channel), self.input.pitch())
    }

    /// The panel with a share's outputs from `column` on, from a term of the sum on.
    fn panel(&self, share: &Share, column: usize, first_term: usize) -> &[f32] {
        let panel = (share.outputs.start + column) / COLUMNS * self.shape.depth;
        let group = &self.constants.floats()[share.group * self.shape.packed()..];
        &group[self.shape.padded()..][(panel + first_term) * COLUMNS..]
    }

    /// The panel that comes after the one at `column`: of the same share, or the first one of the
    /// share `after` it.
    fn next_panel(
        &self,
        [share, after]: [&Share; 2],
        column: usize,
        term: usize,
        chunk: &Columns,
    ) -> *const f32 {
        let next_term = term + chunk.depth;
        let next = if column + COLUMNS < share.outputs.len() {
            self.panel(share, column + COLUMNS, term)
        } else if next_term < self.shape.depth {
            self.panel(share, 0, next_term)
        } else {
            self.panel(after, 0, 0)
        };
        next.as_ptr()
    }

    /// Rows from `row` on of what is copied for the terms from `term` on, or for the share `after`
    /// if there are none, and their pitch; `None` if pixels as they lie are not what is copied.
    fn copied_next(
        &self,
        [share, after]: [&Share; 2],
        row: usize,
        term: usize,
    ) -> Option<(*const f32, usize)> {
        let (share, term) = if term < self.shape.depth { (share, term) } else { (after, 0) };
        let pixel = share.pixels.start + row;
        (self.copies_pixels && pixel < share.pixels.end).then(|| {
            let channel = share.group * self.group_inputs + term;
            (self.input.at(pixel, channel).cast_const(), self.input.pitch())
        })
    }

    /// Memory that a tile should prefetch: `next` of the panels, rows `ahead`, and in the `last`
    /// chunk the commit's operands.
    fn hints(
        &self,
        share: &Share,
        [row, column]: [usize; 2],
        next: (*const f32, usize),
        ahead: (*const f32, usize),
        last: bool,
    ) -> Hints {
        let ((next, next_step), (rows, rows_pitch)) = (next, ahead);
        if !last {
            let (output, residual) = (next, next);
            return Hints { next, next_step, rows, rows_pitch, output, residual, pitch: 0 };
        }
        let channel = share.group * self.shape.outputs + share.outputs.start + column;
        let [output, residual] = self.epilogue.touches(share.pixels.start + row, channel);
        let pitch = self.epilogue.output.pitch();
        Hints { next, next_step, rows, rows_pitch, output, residual, pitch }
    }
}
