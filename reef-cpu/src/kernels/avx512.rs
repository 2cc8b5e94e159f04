//! The product of a [`Tile`] with AVX-512.
//!
//! Tiles of [`ROWS`] rows and two vectors, which is where the time goes, have an inner loop in
//! assembly. Compilers find the same loads and multiply-adds, but step through the rows with an
//! addition for each, and those additions take issue slots of the two multipliers: 215 GFLOP/s
//! instead of 231 on one core (`docs/cpu-kernels.md`). The other sizes are left to the compiler.

use super::end::End;
use super::lanes::{LANES, lanes, write};
use super::tile::{COLUMNS, Hints, ROWS, Tile};
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

/// Fewest terms that the loop in assembly takes.
const MIN_TERMS: usize = 2;

/// What becomes of a tile's sums before they are written, where they are not kept for more terms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    /// One for each of the tile's columns.
    pub bias: *const f32,
    /// What is added to the first row, and floats to what is added to the next.
    pub residual: Option<*const f32>,
    pub residual_pitch: usize,
    pub end: End,
}

impl Ends {
    /// Nothing but the bias and ReLU.
    fn is_plain(&self) -> bool {
        self.residual.is_none() && self.end.function.is_none()
    }
}

/// # Safety
///
/// As [`product::multiply`](super::product::multiply).
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn multiply(tile: &Tile) {
    // SAFETY: the caller's promise.
    unsafe { multiply_and::<false>(tile, None) }
}

/// Computes the product of `tile` and what becomes of it. Of each row it writes the tile's columns alone.
///
/// # Safety
///
/// As [`product::multiply`](super::product::multiply), but only `columns` floats of each row of `sums` are the caller's;
/// what `ends` names can be read and isn't written meanwhile.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn multiply_to_the_end(tile: &Tile, ends: &Ends) {
    // SAFETY: the caller's promise.
    unsafe { multiply_and::<true>(tile, Some(ends)) }
}

/// With ends if `END` says so: without them, sums shall not leave registers for their sake.
///
/// # Safety
///
/// As [`multiply`], and with `ends` as [`multiply_to_the_end`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn multiply_and<const END: bool>(tile: &Tile, ends: Option<&Ends>) {
    if tile.columns > LANES && tile.rows == ROWS && tile.depth >= MIN_TERMS {
        // SAFETY: the caller's promise, and the tile is full and deep enough.
        unsafe { full::<END>(tile, ends) }
    } else if tile.columns > LANES {
        // SAFETY: the caller's promise.
        unsafe { by_rows::<2, END>(tile, ends) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { by_rows::<1, END>(tile, ends) }
    }
}

/// # Safety
///
/// As [`multiply_and`].
#[target_feature(enable = "avx512f")]
unsafe fn by_rows<const VECTORS: usize, const END: bool>(tile: &Tile, ends: Option<&Ends>) {
    macro_rules! rows {
        ($($rows:literal)*) => {
            match tile.rows {
                // SAFETY: the caller's promise, and the tile has this many rows.
                $($rows => unsafe { product::<$rows, VECTORS, END>(tile, ends) },)*
                rows => unreachable!("{rows} rows in a tile"),
            }
        };
    }
    rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14)
}

/// A full tile: pairs of terms in assembly, and the last term of an odd number.
///
/// # Safety
///
/// As [`multiply_and`], for [`ROWS`] rows and at least [`MIN_TERMS`] terms.
#[target_feature(enable = "avx512f")]
unsafe fn full<const END: bool>(tile: &Tile, ends: Option<&Ends>) {
    // SAFETY: the caller's promise.
    let mut sums = unsafe { load::<ROWS, 2>(tile) };
    // SAFETY: the caller's promise; an odd last term is left out, and there is one if it is odd.
    unsafe {
        add_pairs(&mut sums, tile);
        add_terms(&mut sums, tile, tile.depth & !1..tile.depth);
        finish::<ROWS, 2, END>(&sums, tile, ends);
    }
}

/// What the loop in assembly reads now and then.
#[repr(C)]
struct Turns {
    /// Turns left, one for each row if there are terms enough. One row of the output is brought near in each.
    left: usize,
    /// Pairs of terms in each turn but the last.
    pairs: usize,
    /// Pairs of terms in the last turn.
    rest: usize,
    /// Bytes from a row of the output to the next.
    pitch: usize,
    /// The row that the next turn brings near.
    row: *const f32,
    /// Bytes from such a row to the next.
    row_pitch: usize,
    /// Bytes of what comes next that a pair of terms brings near.
    next_step: usize,
}

impl Turns {
    fn new(tile: &Tile) -> Self {
        let all = tile.depth / 2;
        let left = all.min(ROWS);
        let pairs = all / left;
        Self {
            left,
            pairs,
            rest: all - pairs * (left - 1),
            pitch: tile.hints.pitch * 4,
            row: tile.hints.rows,
            row_pitch: tile.a_pitch * 4,
            next_step: tile.hints.next_step * 4,
        }
    }
}

/// One row of one term: broadcast the input, multiply it with both vectors of weights.
macro_rules! row {
    ($input:literal, $first:literal, $second:literal, $address:literal, $at:literal) => {
        concat!(
            "vbroadcastss zmm",
            $input,
            ", dword ptr [",
            $address,
            " + 4*",
            $at,
            "]\n",
            "vfmadd231ps zmm",
            $first,
            ", zmm",
            $input,
            ", zmm28\n",
            "vfmadd231ps zmm",
            $second,
            ", zmm",
            $input,
            ", zmm29\n",
        )
    };
}

/// One term: two vectors of weights, fourteen rows.
macro_rules! term {
    ($at:literal) => {
        concat!(
            "vmovups zmm28, zmmword ptr [{b} + 128*",
            $at,
            "]\n",
            "vmovups zmm29, zmmword ptr [{b} + 128*",
            $at,
            " + 64]\n",
            "prefetcht0 byte ptr [{next} + 64*",
            $at,
            "]\n",
            "prefetcht0 byte ptr [{row} + 64*",
            $at,
            "]\n",
            row!(30, 0, 1, "{a}", $at),
            row!(31, 2, 3, "{a}+{s}", $at),
            row!(30, 4, 5, "{a}+2*{s}", $at),
            row!(31, 6, 7, "{a}+{s3}", $at),
            row!(30, 8, 9, "{a}+4*{s}", $at),
            row!(31, 10, 11, "{a}+{s5}", $at),
            row!(30, 12, 13, "{a}+2*{s3}", $at),
            row!(31, 14, 15, "{a7}", $at),
            row!(30, 16, 17, "{a7}+{s}", $at),
            row!(31, 18, 19, "{a7}+2*{s}", $at),
            row!(30, 20, 21, "{a7}+{s3}", $at),
            row!(31, 22, 23, "{a7}+4*{s}", $at),
            row!(30, 24, 25, "{a7}+{s5}", $at),
            row!(31, 26, 27, "{a7}+2*{s3}", $at),
        )
    };
}

/// Adds all pairs of terms.
///
/// # Safety
///
/// As [`full`].
#[target_feature(enable = "avx512f")]
unsafe fn add_pairs(sums: &mut [[__m512; 2]; ROWS], tile: &Tile) {
    let mut turns = Turns::new(tile);
    let stride = tile.a_pitch * 4;
    // SAFETY: reads `depth / 2` pairs of terms of `a` and `b`, as the caller allows, and `turns`;
    // the rest are prefetches, which may point anywhere. Both loop counts are at least 1, because
    // there are `MIN_TERMS` terms.
    unsafe {
        asm!(
            "2:",
            "prefetchw byte ptr [{output}]",
            "prefetchw byte ptr [{output} + 64]",
            "prefetcht1 byte ptr [{residual}]",
            "prefetcht1 byte ptr [{residual} + 64]",
            "add {output}, qword ptr [{turns} + 24]",
            "add {residual}, qword ptr [{turns} + 24]",
            "mov {k}, qword ptr [{turns} + 40]",
            "mov {row}, qword ptr [{turns} + 32]",
            "add qword ptr [{turns} + 32], {k}",
            "mov {k}, qword ptr [{turns} + 8]",
            "dec qword ptr [{turns}]",
            "cmovz {k}, qword ptr [{turns} + 16]",
            "3:",
            term!(0),
            term!(1),
            "add {a}, 8",
            "add {a7}, 8",
            "add {b}, 256",
            "add {next}, qword ptr [{turns} + 48]",
            "add {row}, 128",
            "dec {k}",
            "jnz 3b",
            "cmp qword ptr [{turns}], 0",
            "jne 2b",
            turns = in(reg) &raw mut turns,
            a = inout(reg) tile.a => _,
            a7 = inout(reg) tile.a.wrapping_add(7 * tile.a_pitch) => _,
            s = in(reg) stride,
            s3 = in(reg) 3 * stride,
            s5 = in(reg) 5 * stride,
            b = inout(reg) tile.b => _,
            next = inout(reg) tile.hints.next => _,
            output = inout(reg) tile.hints.output => _,
            residual = inout(reg) tile.hints.residual => _,
            k = out(reg) _,
            row = out(reg) _,
            inout("zmm0") sums[0][0], inout("zmm1") sums[0][1],
            inout("zmm2") sums[1][0], inout("zmm3") sums[1][1],
            inout("zmm4") sums[2][0], inout("zmm5") sums[2][1],
            inout("zmm6") sums[3][0], inout("zmm7") sums[3][1],
            inout("zmm8") sums[4][0], inout("zmm9") sums[4][1],
            inout("zmm10") sums[5][0], inout("zmm11") sums[5][1],
            inout("zmm12") sums[6][0], inout("zmm13") sums[6][1],
            inout("zmm14") sums[7][0], inout("zmm15") sums[7][1],
            inout("zmm16") sums[8][0], inout("zmm17") sums[8][1],
            inout("zmm18") sums[9][0], inout("zmm19") sums[9][1],
            inout("zmm20") sums[10][0], inout("zmm21") sums[10][1],
            inout("zmm22") sums[11][0], inout("zmm23") sums[11][1],
            inout("zmm24") sums[12][0], inout("zmm25") sums[12][1],
            inout("zmm26") sums[13][0], inout("zmm27") sums[13][1],
            out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
            options(nostack),
        );
    }
}

/// # Safety
///
/// As [`multiply_and`], with `R` rows and `V` vectors per row.
#[target_feature(enable = "avx512f")]
unsafe fn product<const R: usize, const V: usize, const END: bool>(
    tile: &Tile,
    ends: Option<&Ends>,
) {
    // SAFETY: the caller's promise.
    let mut sums = unsafe { load::<R, V>(tile) };
    let steps = tile.depth / R;
    for r in 0..R {
        hint::<V>(&tile.hints, r);
        let end = if r + 1 < R { (r + 1) * steps } else { tile.depth };
        // SAFETY: the caller's promise, and these are some of the `depth` terms.
        unsafe { add_terms(&mut sums, tile, r * steps..end) };
    }
    // SAFETY: the caller's promise.
    unsafe { finish::<R, V, END>(&sums, tile, ends) };
}

/// The sums so far.
///
/// # Safety
///
/// As [`product`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load<const R: usize, const V: usize>(tile: &Tile) -> [[__m512; V]; R] {
    let mut sums = [[_mm512_setzero_ps(); V]; R];
    if !tile.fresh {
        for (r, row) in sums.iter_mut().enumerate() {
            for (v, sum) in row.iter_mut().enumerate() {
                let from = tile.sums.wrapping_add(r * tile.sums_pitch + v * LANES);
                // SAFETY: `sums` has `R` rows of `COLUMNS`.
                *sum = unsafe { _mm512_loadu_ps(from) };
            }
        }
    }
    sums
}

/// Writes the sums, or what becomes of them.
///
/// # Safety
///
/// As [`product`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn finish<const R: usize, const V: usize, const END: bool>(
    sums: &[[__m512; V]; R],
    tile: &Tile,
    ends: Option<&Ends>,
) {
    match ends.filter(|_| END) {
        // SAFETY: the caller's promise.
        None => unsafe { store(sums, tile) },
        // SAFETY: as above.
        Some(ends) if ends.is_plain() => unsafe { store_plain(sums, tile, ends) },
        // SAFETY: as above. Of a copy, as sums whose address is known elsewhere are in no registers.
        Some(ends) => unsafe { store_ends(&{ *sums }, tile, ends) },
    }
}

/// Adds the bias, and writes what is at least the floor.
///
/// # Safety
///
/// As [`product`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_plain<const R: usize, const V: usize>(
    sums: &[[__m512; V]; R],
    tile: &Tile,
    ends: &Ends,
) {
    let floor = _mm512_set1_ps(if ends.end.relu { 0.0 } else { f32::NEG_INFINITY });
    for v in 0..V {
        let mask = lanes(tile.columns.saturating_sub(v * LANES));
        // SAFETY: there is a bias for each column.
        let bias = unsafe { _mm512_maskz_loadu_ps(mask, ends.bias.wrapping_add(v * LANES)) };
        for (r, row) in sums.iter().enumerate() {
            let to = tile.sums.wrapping_add(r * tile.sums_pitch + v * LANES);
            // What is not a number stays none: of two that can't be compared, the second is taken.
            let value = _mm512_max_ps(floor, _mm512_add_ps(row[v], bias));
            // SAFETY: the columns of `R` rows are the caller's.
            unsafe { write(to, mask, value) };
        }
    }
}

/// Writes what becomes of sums, row by row.
///
/// # Safety
///
/// As [`product`].
#[inline(never)]
#[target_feature(enable = "avx512f")]
unsafe fn store_ends<const V: usize>(sums: &[[__m512; V]], tile: &Tile, ends: &Ends) {
    let masks: [_; V] = std::array::from_fn(|v| lanes(tile.columns.saturating_sub(v * LANES)));
    for (r, sums) in sums.iter().enumerate() {
        let mut row = *sums;
        for (v, value) in row.iter_mut().enumerate() {
            // SAFETY: there is a bias for each column.
            let bias =
                unsafe { _mm512_maskz_loadu_ps(masks[v], ends.bias.wrapping_add(v * LANES)) };
            *value = _mm512_add_ps(*value, bias);
            if let Some(residual) = ends.residual {
                let from = residual.wrapping_add(r * ends.residual_pitch + v * LANES);
                // SAFETY: the residual has the tile's columns in each row.
                *value = _mm512_add_ps(*value, unsafe { _mm512_maskz_loadu_ps(masks[v], from) });
            }
        }
        ends.end.apply_in_loop(&mut row);
        for (v, value) in row.into_iter().enumerate() {
            let to = tile.sums.wrapping_add(r * tile.sums_pitch + v * LANES);
            // SAFETY: the columns of each row are the caller's.
            unsafe { write(to, masks[v], value) };
        }
    }
}

/// # Safety
///
/// As [`product`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store<const R: usize, const V: usize>(sums: &[[__m512; V]; R], tile: &Tile) {
    for (r, row) in sums.iter().enumerate() {
        for (v, &sum) in row.iter().enumerate() {
            let to = tile.sums.wrapping_add(r * tile.sums_pitch + v * LANES);
            // SAFETY: `sums` has `R` rows of `COLUMNS`, which are the caller's.
            unsafe { _mm512_storeu_ps(to, sum) };
        }
    }
}

/// # Safety
///
/// As [`product`], for terms below `depth`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_terms<const R: usize, const V: usize>(
    sums: &mut [[__m512; V]; R],
    tile: &Tile,
    terms: Range<usize>,
) {
    for k in terms {
        let next = tile.hints.next.wrapping_add(k * tile.hints.next_step / 2);
        _mm_prefetch::<_MM_HINT_T0>(next.cast());
        let mut b = [_mm512_setzero_ps(); V];
        for (v, b) in b.iter_mut().enumerate() {
            // SAFETY: `b` has `depth` rows of `COLUMNS`.
            *b = unsafe { _mm512_loadu_ps(tile.b.add(k * COLUMNS + v * LANES)) };
        }
        for (r, row) in sums.iter_mut().enumerate() {
            // SAFETY: `a` has `R` rows of `depth`.
            let a = _mm512_set1_ps(unsafe { *tile.a.add(r * tile.a_pitch + k) });
            for (sum, b) in row.iter_mut().zip(b) {
                *sum = _mm512_fmadd_ps(a, b, *sum);
            }
        }
    }
}

/// Brings row `r` of the output and the residual into the L2 cache.
#[inline]
#[target_feature(enable = "avx512f")]
fn hint<const V: usize>(hints: &Hints, r: usize) {
    for v in 0..V {
        let at = r * hints.pitch + v * LANES;
        _mm_prefetch::<_MM_HINT_ET1>(hints.output.wrapping_add(at).cast());
        _mm_prefetch::<_MM_HINT_T1>(hints.residual.wrapping_add(at).cast());
    }
}
