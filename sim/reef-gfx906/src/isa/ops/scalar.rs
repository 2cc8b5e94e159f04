//! Scalar integers. An operation gives its result and the condition bit.

use super::int::sign_bits;
use super::lanes::ops;
use crate::isa::inst::{Inst, Op, Run, Src};
use crate::isa::registers::{EXEC, M0};
use crate::isa::wave::Wave;

macro_rules! s1 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let f: fn(u32, bool) -> (u32, bool) = $f;
            let (value, scc) = f(w.regs.scalar(i.src[0]), w.regs.scc);
            finish(w, i, value, scc);
        })
    };
}

/// Operation from 64 bits to 32.
macro_rules! ds1 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let f: fn(u64, bool) -> (u32, bool) = $f;
            let (value, scc) = f(w.regs.scalar64(i.src[0]), w.regs.scc);
            finish(w, i, value, scc);
        })
    };
}

macro_rules! d1 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let f: fn(u64, bool) -> (u64, bool) = $f;
            let (value, scc) = f(w.regs.scalar64(i.src[0]), w.regs.scc);
            finish64(w, i, value, scc);
        })
    };
}

macro_rules! s2 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let f: fn(u32, u32, bool) -> (u32, bool) = $f;
            let (a, b) = (w.regs.scalar(i.src[0]), w.regs.scalar(i.src[1]));
            let (value, scc) = f(a, b, w.regs.scc);
            finish(w, i, value, scc);
        })
    };
}

macro_rules! d2 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let f: fn(u64, u64, bool) -> (u64, bool) = $f;
            let (a, b) = (w.regs.scalar64(i.src[0]), w.regs.scalar64(i.src[1]));
            let (value, scc) = f(a, b, w.regs.scc);
            finish64(w, i, value, scc);
        })
    };
}

/// 64 bits, by 32 bits that say how.
macro_rules! ds2 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let f: fn(u64, u32) -> u64 = $f;
            let value = f(w.regs.scalar64(i.src[0]), w.regs.scalar(i.src[1]));
            finish64(w, i, value, value != 0);
        })
    };
}

macro_rules! cmp {
    ($f:expr) => {
        Run::Alu(|w, i| compare(w, i, $f))
    };
}

/// The result's register against the immediate, with its sign and without.
macro_rules! cmpk {
    ($f:expr) => {
        Run::Alu(|w, i| compare_immediate(w, i, |a, b| $f(a as i32, b)))
    };
    (unsigned $f:expr) => {
        Run::Alu(|w, i| compare_immediate(w, i, |a, b| $f(a, b as u32 & 0xffff)))
    };
}

/// Saves the active lanes in the result and makes new ones from operand and them.
macro_rules! save {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let f: fn(u64, u64) -> u64 = $f;
            let old = w.regs.exec();
            let new = f(w.regs.scalar64(i.src[0]), old);
            w.regs.set_s64(i.dst, old);
            w.regs.set_s64(EXEC, new);
            w.regs.scc = new != 0;
        })
    };
}

/// Makes new active lanes, and the result holds them too.
macro_rules! wrexec {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let f: fn(u64, u64) -> u64 = $f;
            let new = f(w.regs.scalar64(i.src[0]), w.regs.exec());
            w.regs.set_s64(EXEC, new);
            w.regs.set_s64(i.dst, new);
            w.regs.scc = new != 0;
        })
    };
}

pub(super) const OPS: &[Op] = ops![
    Sop1 0 "s_mov_b32" => s1!(|a, scc| (a, scc)),
    Sop1 1 "s_mov_b64" => d1!(|a, scc| (a, scc)),
    Sop1 2 "s_cmov_b32" => Run::Alu(|w, i| if w.regs.scc { finish(w, i, w.regs.scalar(i.src[0]), true) }),
    Sop1 3 "s_cmov_b64" => Run::Alu(|w, i| if w.regs.scc { finish64(w, i, w.regs.scalar64(i.src[0]), true) }),
    Sop1 4 "s_not_b32" => s1!(|a, _| flag(!a)),
    Sop1 5 "s_not_b64" => d1!(|a, _| flag64(!a)),
    Sop1 6 "s_wqm_b32" => s1!(|a, _| flag(quads(a.into()) as u32 * 15)),
    Sop1 7 "s_wqm_b64" => d1!(|a, _| flag64(quads(a) * 15)),
    Sop1 8 "s_brev_b32" => s1!(|a, scc| (a.reverse_bits(), scc)),
    Sop1 9 "s_brev_b64" => d1!(|a, scc| (a.reverse_bits(), scc)),
    Sop1 10 "s_bcnt0_i32_b32" => s1!(|a, _| flag(a.count_zeros())),
    Sop1 11 "s_bcnt0_i32_b64" => ds1!(|a, _| flag(a.count_zeros())),
    Sop1 12 "s_bcnt1_i32_b32" => s1!(|a, _| flag(a.count_ones())),
    Sop1 13 "s_bcnt1_i32_b64" => ds1!(|a, _| flag(a.count_ones())),
    Sop1 14 "s_ff0_i32_b32" => s1!(|a, scc| (first(u64::from(!a)), scc)),
    Sop1 15 "s_ff0_i32_b64" => ds1!(|a, scc| (first(!a), scc)),
    Sop1 16 "s_ff1_i32_b32" => s1!(|a, scc| (first(a.into()), scc)),
    Sop1 17 "s_ff1_i32_b64" => ds1!(|a, scc| (first(a), scc)),
    Sop1 18 "s_flbit_i32_b32" => s1!(|a, scc| (if a == 0 { u32::MAX } else { a.leading_zeros() }, scc)),
    Sop1 19 "s_flbit_i32_b64" => ds1!(|a, scc| (if a == 0 { u32::MAX } else { a.leading_zeros() }, scc)),
    Sop1 20 "s_flbit_i32" => s1!(|a, scc| (sign_bits(a as i32), scc)),
    Sop1 21 "s_flbit_i32_i64" => ds1!(|a, scc| (sign_bits64(a as i64), scc)),
    Sop1 22 "s_sext_i32_i8" => s1!(|a, scc| (i32::from(a as i8) as u32, scc)),
    Sop1 23 "s_sext_i32_i16" => s1!(|a, scc| (i32::from(a as i16) as u32, scc)),
    Sop1 24 "s_bitset0_b32" => Run::Alu(|w, i| bitset(w, i, false)),
    Sop1 25 "s_bitset0_b64" => Run::Alu(|w, i| bitset64(w, i, false)),
    Sop1 26 "s_bitset1_b32" => Run::Alu(|w, i| bitset(w, i, true)),
    Sop1 27 "s_bitset1_b64" => Run::Alu(|w, i| bitset64(w, i, true)),
    Sop1 32 "s_and_saveexec_b64" => save!(|a, exec| a & exec),
    Sop1 33 "s_or_saveexec_b64" => save!(|a, exec| a | exec),
    Sop1 34 "s_xor_saveexec_b64" => save!(|a, exec| a ^ exec),
    Sop1 35 "s_andn2_saveexec_b64" => save!(|a, exec| a & !exec),
    Sop1 36 "s_orn2_saveexec_b64" => save!(|a, exec| a | !exec),
    Sop1 37 "s_nand_saveexec_b64" => save!(|a, exec| !(a & exec)),
    Sop1 38 "s_nor_saveexec_b64" => save!(|a, exec| !(a | exec)),
    Sop1 39 "s_xnor_saveexec_b64" => save!(|a, exec| !(a ^ exec)),
    Sop1 40 "s_quadmask_b32" => s1!(|a, _| flag(squeezed(quads(a.into())) as u32)),
    Sop1 41 "s_quadmask_b64" => d1!(|a, _| flag64(squeezed(quads(a)))),
    Sop1 42 "s_movrels_b32" => Run::Alu(|w, i| finish(w, i, w.regs.scalar(from_m0(w, i)), w.regs.scc)),
    Sop1 43 "s_movrels_b64" => Run::Alu(|w, i| finish64(w, i, w.regs.scalar64(from_m0(w, i)), w.regs.scc)),
    Sop1 44 "s_movreld_b32" => Run::Alu(|w, i| w.regs.set_s(to_m0(w, i), w.regs.scalar(i.src[0]))),
    Sop1 45 "s_movreld_b64" => Run::Alu(|w, i| w.regs.set_s64(to_m0(w, i), w.regs.scalar64(i.src[0]))),
    Sop1 48 "s_abs_i32" => s1!(|a, _| flag((a as i32).wrapping_abs() as u32)),
    Sop1 51 "s_andn1_saveexec_b64" => save!(|a, exec| !a & exec),
    Sop1 52 "s_orn1_saveexec_b64" => save!(|a, exec| !a | exec),
    Sop1 53 "s_andn1_wrexec_b64" => wrexec!(|a, exec| !a & exec),
    Sop1 54 "s_andn2_wrexec_b64" => wrexec!(|a, exec| a & !exec),
    Sop1 55 "s_bitreplicate_b64_b32" => Run::Alu(bitreplicate),
    Sop2 0 "s_add_u32" => s2!(|a, b, _| a.overflowing_add(b)),
    Sop2 1 "s_sub_u32" => s2!(|a, b, _| a.overflowing_sub(b)),
    Sop2 2 "s_add_i32" => s2!(|a, b, _| (a.wrapping_add(b), (a as i32).checked_add(b as i32).is_none())),
    Sop2 3 "s_sub_i32" => s2!(|a, b, _| (a.wrapping_sub(b), (a as i32).checked_sub(b as i32).is_none())),
    Sop2 4 "s_addc_u32" => s2!(|a, b, scc| carry(u64::from(a) + u64::from(b) + u64::from(scc))),
    Sop2 5 "s_subb_u32" => s2!(|a, b, scc| carry(u64::from(a).wrapping_sub(u64::from(b) + u64::from(scc)))),
    Sop2 6 "s_min_i32" => s2!(|a, b, _| if (a as i32) < b as i32 { (a, true) } else { (b, false) }),
    Sop2 7 "s_min_u32" => s2!(|a, b, _| if a < b { (a, true) } else { (b, false) }),
    Sop2 8 "s_max_i32" => s2!(|a, b, _| if a as i32 >= b as i32 { (a, true) } else { (b, false) }),
    Sop2 9 "s_max_u32" => s2!(|a, b, _| if a >= b { (a, true) } else { (b, false) }),
    Sop2 10 "s_cselect_b32" => s2!(|a, b, scc| (if scc { a } else { b }, scc)),
    Sop2 11 "s_cselect_b64" => d2!(|a, b, scc| (if scc { a } else { b }, scc)),
    Sop2 12 "s_and_b32" => s2!(|a, b, _| flag(a & b)),
    Sop2 13 "s_and_b64" => d2!(|a, b, _| flag64(a & b)),
    Sop2 14 "s_or_b32" => s2!(|a, b, _| flag(a | b)),
    Sop2 15 "s_or_b64" => d2!(|a, b, _| flag64(a | b)),
    Sop2 16 "s_xor_b32" => s2!(|a, b, _| flag(a ^ b)),
    Sop2 17 "s_xor_b64" => d2!(|a, b, _| flag64(a ^ b)),
    Sop2 18 "s_andn2_b32" => s2!(|a, b, _| flag(a & !b)),
    Sop2 19 "s_andn2_b64" => d2!(|a, b, _| flag64(a & !b)),
    Sop2 20 "s_orn2_b32" => s2!(|a, b, _| flag(a | !b)),
    Sop2 21 "s_orn2_b64" => d2!(|a, b, _| flag64(a | !b)),
    Sop2 22 "s_nand_b32" => s2!(|a, b, _| flag(!(a & b))),
    Sop2 23 "s_nand_b64" => d2!(|a, b, _| flag64(!(a & b))),
    Sop2 24 "s_nor_b32" => s2!(|a, b, _| flag(!(a | b))),
    Sop2 25 "s_nor_b64" => d2!(|a, b, _| flag64(!(a | b))),
    Sop2 26 "s_xnor_b32" => s2!(|a, b, _| flag(!(a ^ b))),
    Sop2 27 "s_xnor_b64" => d2!(|a, b, _| flag64(!(a ^ b))),
    Sop2 28 "s_lshl_b32" => s2!(|a, b, _| flag(a << (b & 31))),
    Sop2 29 "s_lshl_b64" => ds2!(|a, b| a << (b & 63)),
    Sop2 30 "s_lshr_b32" => s2!(|a, b, _| flag(a >> (b & 31))),
    Sop2 31 "s_lshr_b64" => ds2!(|a, b| a >> (b & 63)),
    Sop2 32 "s_ashr_i32" => s2!(|a, b, _| flag((a as i32 >> (b & 31)) as u32)),
    Sop2 33 "s_ashr_i64" => ds2!(|a, b| (a as i64 >> (b & 63)) as u64),
    Sop2 34 "s_bfm_b32" => s2!(|a, b, scc| (((1 << (a & 31)) - 1) << (b & 31), scc)),
    Sop2 35 "s_bfm_b64" => Run::Alu(|w, i| {
        let (a, b) = (w.regs.scalar(i.src[0]), w.regs.scalar(i.src[1]));
        finish64(w, i, ((1u64 << (a & 63)) - 1) << (b & 63), w.regs.scc);
    }),
    Sop2 36 "s_mul_i32" => s2!(|a, b, scc| (a.wrapping_mul(b), scc)),
    Sop2 37 "s_bfe_u32" => s2!(|a, b, _| flag(low(u64::from(a >> (b & 31)), b >> 16 & 127) as u32)),
    Sop2 38 "s_bfe_i32" => s2!(|a, b, _| flag(signed_low(i64::from(a as i32 >> (b & 31)), b >> 16 & 127) as u32)),
    Sop2 39 "s_bfe_u64" => ds2!(|a, b| low(a >> (b & 63), b >> 16 & 127)),
    Sop2 40 "s_bfe_i64" => ds2!(|a, b| signed_low(a as i64 >> (b & 63), b >> 16 & 127)),
    Sop2 42 "s_absdiff_i32" => s2!(|a, b, _| flag((a.wrapping_sub(b) as i32).wrapping_abs() as u32)),
    Sop2 44 "s_mul_hi_u32" => s2!(|a, b, scc| (((u64::from(a) * u64::from(b)) >> 32) as u32, scc)),
    Sop2 45 "s_mul_hi_i32" => s2!(|a, b, scc| (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32, scc)),
    Sop2 46 "s_lshl1_add_u32" => s2!(|a, b, _| carry((u64::from(a) << 1) + u64::from(b))),
    Sop2 47 "s_lshl2_add_u32" => s2!(|a, b, _| carry((u64::from(a) << 2) + u64::from(b))),
    Sop2 48 "s_lshl3_add_u32" => s2!(|a, b, _| carry((u64::from(a) << 3) + u64::from(b))),
    Sop2 49 "s_lshl4_add_u32" => s2!(|a, b, _| carry((u64::from(a) << 4) + u64::from(b))),
    Sop2 50 "s_pack_ll_b32_b16" => s2!(|a, b, scc| (a & 0xffff | b << 16, scc)),
    Sop2 51 "s_pack_lh_b32_b16" => s2!(|a, b, scc| (a & 0xffff | b & 0xffff_0000, scc)),
    Sop2 52 "s_pack_hh_b32_b16" => s2!(|a, b, scc| (a >> 16 | b & 0xffff_0000, scc)),
    Sopc 0 "s_cmp_eq_i32" => cmp!(|a, b| a == b),
    Sopc 1 "s_cmp_lg_i32" => cmp!(|a, b| a != b),
    Sopc 2 "s_cmp_gt_i32" => cmp!(|a, b| a as i32 > b as i32),
    Sopc 3 "s_cmp_ge_i32" => cmp!(|a, b| a as i32 >= b as i32),
    Sopc 4 "s_cmp_lt_i32" => cmp!(|a, b| (a as i32) < b as i32),
    Sopc 5 "s_cmp_le_i32" => cmp!(|a, b| a as i32 <= b as i32),
    Sopc 6 "s_cmp_eq_u32" => cmp!(|a, b| a == b),
    Sopc 7 "s_cmp_lg_u32" => cmp!(|a, b| a != b),
    Sopc 8 "s_cmp_gt_u32" => cmp!(|a, b| a > b),
    Sopc 9 "s_cmp_ge_u32" => cmp!(|a, b| a >= b),
    Sopc 10 "s_cmp_lt_u32" => cmp!(|a, b| a < b),
    Sopc 11 "s_cmp_le_u32" => cmp!(|a, b| a <= b),
    Sopc 12 "s_bitcmp0_b32" => cmp!(|a, b| a >> (b & 31) & 1 == 0),
    Sopc 13 "s_bitcmp1_b32" => cmp!(|a, b| a >> (b & 31) & 1 != 0),
    Sopc 14 "s_bitcmp0_b64" => Run::Alu(|w, i| w.regs.scc = !bit64(w, i)),
    Sopc 15 "s_bitcmp1_b64" => Run::Alu(|w, i| w.regs.scc = bit64(w, i)),
    Sopc 18 "s_cmp_eq_u64" => Run::Alu(|w, i| w.regs.scc = w.regs.scalar64(i.src[0]) == w.regs.scalar64(i.src[1])),
    Sopc 19 "s_cmp_lg_u64" => Run::Alu(|w, i| w.regs.scc = w.regs.scalar64(i.src[0]) != w.regs.scalar64(i.src[1])),
    Sopk 0 "s_movk_i32" => Run::Alu(|w, i| w.regs.set_s(i.dst, i.imm as u32)),
    Sopk 1 "s_cmovk_i32" => Run::Alu(|w, i| if w.regs.scc { w.regs.set_s(i.dst, i.imm as u32) }),
    Sopk 2 "s_cmpk_eq_i32" => cmpk!(|a, b| a == b),
    Sopk 3 "s_cmpk_lg_i32" => cmpk!(|a, b| a != b),
    Sopk 4 "s_cmpk_gt_i32" => cmpk!(|a, b| a > b),
    Sopk 5 "s_cmpk_ge_i32" => cmpk!(|a, b| a >= b),
    Sopk 6 "s_cmpk_lt_i32" => cmpk!(|a, b| a < b),
    Sopk 7 "s_cmpk_le_i32" => cmpk!(|a, b| a <= b),
    Sopk 8 "s_cmpk_eq_u32" => cmpk!(unsigned |a, b| a == b),
    Sopk 9 "s_cmpk_lg_u32" => cmpk!(unsigned |a, b| a != b),
    Sopk 10 "s_cmpk_gt_u32" => cmpk!(unsigned |a, b| a > b),
    Sopk 11 "s_cmpk_ge_u32" => cmpk!(unsigned |a, b| a >= b),
    Sopk 12 "s_cmpk_lt_u32" => cmpk!(unsigned |a, b| a < b),
    Sopk 13 "s_cmpk_le_u32" => cmpk!(unsigned |a, b| a <= b),
    Sopk 14 "s_addk_i32" => Run::Alu(|w, i| {
        let (sum, over) = (w.regs.s[usize::from(i.dst)] as i32).overflowing_add(i.imm);
        finish(w, i, sum as u32, over);
    }),
    Sopk 15 "s_mulk_i32" => Run::Alu(|w, i| {
        let product = w.regs.s[usize::from(i.dst)].wrapping_mul(i.imm as u32);
        w.regs.set_s(i.dst, product);
    }),
];

fn finish(w: &mut Wave, i: &Inst, value: u32, scc: bool) {
    w.regs.set_s(i.dst, value);
    w.regs.scc = scc;
}

fn finish64(w: &mut Wave, i: &Inst, value: u64, scc: bool) {
    w.regs.set_s64(i.dst, value);
    w.regs.scc = scc;
}

fn compare(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32) -> bool) {
    w.regs.scc = f(w.regs.scalar(i.src[0]), w.regs.scalar(i.src[1]));
}

fn compare_immediate(w: &mut Wave, i: &Inst, f: impl Fn(u32, i32) -> bool) {
    w.regs.scc = f(w.regs.s[usize::from(i.dst)], i.imm);
}

/// A result with the condition that it isn't zero.
fn flag(value: u32) -> (u32, bool) {
    (value, value != 0)
}

fn flag64(value: u64) -> (u64, bool) {
    (value, value != 0)
}

fn carry(sum: u64) -> (u32, bool) {
    (sum as u32, sum >> 32 != 0)
}

/// The number of the lowest bit that is set.
fn first(bits: u64) -> u32 {
    if bits == 0 { u32::MAX } else { bits.trailing_zeros() }
}

fn sign_bits64(a: i64) -> u32 {
    let same = (a ^ (a >> 63)).leading_zeros();
    if same == 64 { u32::MAX } else { same }
}

/// The lowest bit of each four, if any of them is set.
fn quads(bits: u64) -> u64 {
    (bits | bits >> 1 | bits >> 2 | bits >> 3) & 0x1111_1111_1111_1111
}

/// Every fourth bit, next to each other.
fn squeezed(bits: u64) -> u64 {
    (0..16).fold(0, |all, k| all | (bits >> (4 * k) & 1) << k)
}

/// The lower `width` bits, of which there may be more than there are.
fn low(value: u64, width: u32) -> u64 {
    if width >= 64 { value } else { value & ((1 << width) - 1) }
}

fn signed_low(value: i64, width: u32) -> u64 {
    match width {
        0 => 0,
        64.. => value as u64,
        _ => (value << (64 - width) >> (64 - width)) as u64,
    }
}

fn bitset(w: &mut Wave, i: &Inst, on: bool) {
    let bit = 1 << (w.regs.scalar(i.src[0]) & 31);
    let old = w.regs.s[usize::from(i.dst)];
    w.regs.set_s(i.dst, if on { old | bit } else { old & !bit });
}

fn bitset64(w: &mut Wave, i: &Inst, on: bool) {
    let bit = 1 << (w.regs.scalar(i.src[0]) & 63);
    let old = w.regs.s64(i.dst);
    w.regs.set_s64(i.dst, if on { old | bit } else { old & !bit });
}

fn bit64(w: &Wave, i: &Inst) -> bool {
    w.regs.scalar64(i.src[0]) >> (w.regs.scalar(i.src[1]) & 63) & 1 != 0
}

fn bitreplicate(w: &mut Wave, i: &Inst) {
    let bits = u64::from(w.regs.scalar(i.src[0]));
    let value = (0..32).fold(0, |all, k| all | ((bits >> k & 1) * 3) << (2 * k));
    w.regs.set_s64(i.dst, value);
}

/// The scalar register that is M0 after operand 0.
fn from_m0(w: &Wave, i: &Inst) -> Src {
    Src::S((i.imm as u32).wrapping_add(w.regs.s[usize::from(M0)]) as u8 & 127)
}

fn to_m0(w: &Wave, i: &Inst) -> u8 {
    u32::from(i.dst).wrapping_add(w.regs.s[usize::from(M0)]) as u8 & 127
}
