//! The operands of the innermost product: a few rows times one panel, with the sums in registers.
//!
//! ```text
//! sums[ROWS][COLUMNS] += a[ROWS][depth] · b[depth][COLUMNS]
//! ```
//!
//! `a` lies in memory as rows with any pitch, so pixels of a native tensor need no packing; `b` is
//! a packed panel. With AVX-512, 14 rows of two vectors take 28 of the 32 registers, and a step of
//! the sum is 28 multiply-adds for 16 loads, so the two multipliers and not the loads are the
//! limit.

/// Most rows of a tile.
pub(in crate::kernels) const ROWS: usize = 14;
/// Columns of a panel.
pub(in crate::kernels) const COLUMNS: usize = 32;
/// Floats of a line of a cache.
pub(in crate::kernels) const LINE: usize = 16;
/// Terms of a sum that are done at a time: 32 KiB of a panel.
const CHUNK: usize = 256;

/// Number of `terms` that are done at a time: chunks are alike, and whole lines of a cache.
pub(in crate::kernels) fn chunk_of(terms: usize) -> usize {
    terms.div_ceil(terms.div_ceil(CHUNK)).next_multiple_of(LINE)
}

/// Operands of one product.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct Tile {
    pub a: *const f32,
    /// Floats from a row of `a` to the next.
    pub a_pitch: usize,
    /// A packed panel: `depth` rows of [`COLUMNS`].
    pub b: *const f32,
    pub sums: *mut f32,
    /// Floats from a row of `sums` to the next.
    pub sums_pitch: usize,
    /// Number of rows, from 1 to [`ROWS`].
    pub rows: usize,
    /// Number of columns that are needed, from 1 to [`COLUMNS`]. The others may be computed as
    /// well.
    pub columns: usize,
    /// Terms of each sum.
    pub depth: usize,
    /// Overwrite `sums` instead of adding to them.
    pub fresh: bool,
    /// Memory that will be needed later.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no cache is told there"))]
    pub hints: Hints,
}

/// Memory that a tile's product prefetches meanwhile, a line now and then so that the misses
/// overlap with its work. Nothing is read or written there.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no cache is told there"))]
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct Hints {
    /// Read soon, and how many floats of it are brought near for each two terms.
    pub next: *const f32,
    pub next_step: usize,
    /// As many rows and terms as the tile has, which are read soon: the next tile's `a`, or what
    /// will be copied to there. Then floats from a row to the next.
    pub rows: *const f32,
    pub rows_pitch: usize,
    /// Written later: a panel's lines of `rows` rows.
    pub output: *const f32,
    /// Read later: as many.
    pub residual: *const f32,
    /// Floats from a row of both to the next.
    pub pitch: usize,
}

/// The part of a panel of `depth` terms that tile number `tile` of `tiles` brings near, and the
/// floats of it for each two terms. Four tiles do it if there are as many: two of them would wait
/// for outer caches.
pub(in crate::kernels) fn part_of_panel(
    panel: *const f32,
    depth: usize,
    [tile, tiles]: [usize; 2],
) -> (*const f32, usize) {
    let parts = if tiles < 4 { 2 } else { 4 };
    (panel.wrapping_add(tile.min(parts - 1) * depth * COLUMNS / parts), 2 * COLUMNS / parts)
}
