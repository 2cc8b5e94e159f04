//! Pairs of terms of a full tile, in assembly.
//!
//! Compilers find the same loads and multiply-adds, but step through the rows with an
//! addition for each, and those additions take issue slots of the two multipliers: 215 GFLOP/s
//! instead of 231 on one core (`docs/cpu-kernels.md`).

use crate::kernels::product::tile::{ROWS, Tile};
use std::arch::asm;
use std::arch::x86_64::*;

/// Fewest terms that the loop in assembly takes.
pub(super) const MIN_TERMS: usize = 2;

/// Values that the loop in assembly reads now and then.
#[repr(C)]
struct Turns {
    /// Turns left, one for each row if there are terms enough. One row of the output is brought
    /// near in each.
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
            row_pitch: tile.hints.rows_pitch * 4,
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
/// `a` and `b` of `tile` can be read, [`ROWS`] rows and at least [`MIN_TERMS`] terms.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn add_pairs(sums: &mut [[__m512; 2]; ROWS], tile: &Tile) {
    let mut turns = Turns::new(tile);
    let stride = tile.a_pitch * 4;
    // SAFETY: reads `depth / 2` pairs of terms of `a` and `b`, which `add_pairs` demands, and
    // counts in `turns`; the rest are prefetches, which may point anywhere. Both loop counts are at
    // least 1, because there are `MIN_TERMS` terms.
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
