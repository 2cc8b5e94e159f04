//! Operations on the four bytes of a register.

use super::lanes::{ops, u3};
use crate::isa::inst::Op;

pub(super) const OPS: &[Op] = ops![
    Vop3 0x1cd "v_lerp_u8" => u3!(lerp),
    Vop3 0x1d9 "v_sad_u8" => u3!(|a, b, c| sad(a, b).wrapping_add(c)),
    Vop3 0x1da "v_sad_hi_u8" => u3!(|a, b, c| (sad(a, b) << 16).wrapping_add(c)),
    Vop3 0x1db "v_sad_u16" => u3!(sad16),
    Vop3 0x1e4 "v_msad_u8" => u3!(msad),
    Vop3 0x1ed "v_perm_b32" => u3!(perm),
];

fn sad(a: u32, b: u32) -> u32 {
    let [a, b] = [a, b].map(u32::to_le_bytes);
    (0..4).map(|k| u32::from(a[k].abs_diff(b[k]))).sum()
}

fn sad16(a: u32, b: u32, c: u32) -> u32 {
    let low = (a & 0xffff).abs_diff(b & 0xffff);
    low.wrapping_add((a >> 16).abs_diff(b >> 16)).wrapping_add(c)
}

/// As `sad`, but bytes that are zero in `b` don't count.
fn msad(a: u32, b: u32, c: u32) -> u32 {
    let [a, b] = [a, b].map(u32::to_le_bytes);
    let counted = (0..4).filter(|&k| b[k] != 0);
    counted.map(|k| u32::from(a[k].abs_diff(b[k]))).sum::<u32>().wrapping_add(c)
}

/// The mean of each two bytes, rounded as bit 0 of each byte of `c` says.
fn lerp(a: u32, b: u32, c: u32) -> u32 {
    let [a, b, c] = [a, b, c].map(u32::to_le_bytes);
    let mean = |k: usize| (u16::from(a[k]) + u16::from(b[k]) + u16::from(c[k] & 1)) >> 1;
    u32::from_le_bytes(std::array::from_fn(|k| mean(k) as u8))
}

/// Each byte of the result is one of the eight of `a` and `b`, or the sign of a half, or a
/// constant.
fn perm(a: u32, b: u32, select: u32) -> u32 {
    let bytes = (u64::from(a) << 32 | u64::from(b)).to_le_bytes();
    let pick = |select: u8| match select {
        0..=7 => bytes[usize::from(select)],
        8..=11 => (bytes[usize::from(select - 8) * 2 + 1] as i8 >> 7) as u8,
        12 => 0,
        _ => 0xff,
    };
    u32::from_le_bytes(select.to_le_bytes().map(pick))
}
