//! Integers of 32 bits, and carries.

use super::lanes::{ops, u1, u2, u3};
use crate::isa::inst::{Inst, Op, Run};
use crate::isa::wave::Wave;

/// Two operands, with another operation when the result is to be clamped.
macro_rules! sat {
    ($wrapping:expr, $saturating:expr) => {
        Run::Alu(|w, i| {
            if i.clamp {
                super::lanes::binary(w, i, $saturating)
            } else {
                super::lanes::binary(w, i, $wrapping)
            }
        })
    };
}

macro_rules! carry {
    ($f:expr) => {
        Run::Alu(|w, i| carry(w, i, $f))
    };
}

pub(super) const OPS: &[Op] = ops![
    Vop1 0 "v_nop" => Run::Alu(|_, _| ()),
    Vop1 1 "v_mov_b32" => u1!(|a| a),
    Vop1 43 "v_not_b32" => u1!(|a| !a),
    Vop1 44 "v_bfrev_b32" => u1!(u32::reverse_bits),
    Vop1 45 "v_ffbh_u32" => u1!(|a| if a == 0 { u32::MAX } else { a.leading_zeros() }),
    Vop1 46 "v_ffbl_b32" => u1!(|a| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
    Vop1 47 "v_ffbh_i32" => u1!(|a| sign_bits(a as i32)),
    Vop2 6 "v_mul_i32_i24" => u2!(|a, b| signed24(a).wrapping_mul(signed24(b)) as u32),
    Vop2 7 "v_mul_hi_i32_i24" => u2!(|a, b| ((i64::from(signed24(a)) * i64::from(signed24(b))) >> 32) as u32),
    Vop2 8 "v_mul_u32_u24" => u2!(|a, b| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff)),
    Vop2 9 "v_mul_hi_u32_u24" => u2!(|a, b| ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 32) as u32),
    Vop2 12 "v_min_i32" => u2!(|a, b| (a as i32).min(b as i32) as u32),
    Vop2 13 "v_max_i32" => u2!(|a, b| (a as i32).max(b as i32) as u32),
    Vop2 14 "v_min_u32" => u2!(|a, b| a.min(b)),
    Vop2 15 "v_max_u32" => u2!(|a, b| a.max(b)),
    Vop2 16 "v_lshrrev_b32" => u2!(|a, b| b >> (a & 31)),
    Vop2 17 "v_ashrrev_i32" => u2!(|a, b| (b as i32 >> (a & 31)) as u32),
    Vop2 18 "v_lshlrev_b32" => u2!(|a, b| b << (a & 31)),
    Vop2 19 "v_and_b32" => u2!(|a, b| a & b),
    Vop2 20 "v_or_b32" => u2!(|a, b| a | b),
    Vop2 21 "v_xor_b32" => u2!(|a, b| a ^ b),
    Vop2 61 "v_xnor_b32" => u2!(|a, b| !(a ^ b)),
    Vop2 25 "v_add_co_u32" => carry!(|a, b, _| sum(a, b, false)),
    Vop2 26 "v_sub_co_u32" => carry!(|a, b, _| difference(a, b, false)),
    Vop2 27 "v_subrev_co_u32" => carry!(|a, b, _| difference(b, a, false)),
    Vop2 28 "v_addc_co_u32" => carry!(sum),
    Vop2 29 "v_subb_co_u32" => carry!(difference),
    Vop2 30 "v_subbrev_co_u32" => carry!(|a, b, c| difference(b, a, c)),
    Vop2 52 "v_add_u32" => sat!(u32::wrapping_add, u32::saturating_add),
    Vop2 53 "v_sub_u32" => sat!(u32::wrapping_sub, u32::saturating_sub),
    Vop2 54 "v_subrev_u32" => sat!(|a, b| b.wrapping_sub(a), |a, b| b.saturating_sub(a)),
    Vop3 0x1c2 "v_mad_i32_i24" => u3!(|a, b, c| (signed24(a).wrapping_mul(signed24(b)) as u32).wrapping_add(c)),
    Vop3 0x1c3 "v_mad_u32_u24" => u3!(|a, b, c| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c)),
    Vop3 0x1c8 "v_bfe_u32" => u3!(|a, b, c| a >> (b & 31) & ((1 << (c & 31)) - 1)),
    Vop3 0x1c9 "v_bfe_i32" => u3!(bfe_i32),
    Vop3 0x1ca "v_bfi_b32" => u3!(|a, b, c| a & b | !a & c),
    Vop3 0x1ce "v_alignbit_b32" => u3!(|a, b, c| (join(a, b) >> (c & 31)) as u32),
    Vop3 0x1cf "v_alignbyte_b32" => u3!(|a, b, c| (join(a, b) >> (8 * (c & 3))) as u32),
    Vop3 0x1d1 "v_min3_i32" => u3!(|a, b, c| (a as i32).min(b as i32).min(c as i32) as u32),
    Vop3 0x1d2 "v_min3_u32" => u3!(|a, b, c| a.min(b).min(c)),
    Vop3 0x1d4 "v_max3_i32" => u3!(|a, b, c| (a as i32).max(b as i32).max(c as i32) as u32),
    Vop3 0x1d5 "v_max3_u32" => u3!(|a, b, c| a.max(b).max(c)),
    Vop3 0x1d7 "v_med3_i32" => u3!(|a, b, c| med(a as i32, b as i32, c as i32) as u32),
    Vop3 0x1d8 "v_med3_u32" => u3!(med),
    Vop3 0x1dc "v_sad_u32" => u3!(|a, b, c| a.abs_diff(b).wrapping_add(c)),
    Vop3 0x1f3 "v_xad_u32" => u3!(|a, b, c| (a ^ b).wrapping_add(c)),
    Vop3 0x1fd "v_lshl_add_u32" => u3!(|a, b, c| (a << (b & 31)).wrapping_add(c)),
    Vop3 0x1fe "v_add_lshl_u32" => u3!(|a, b, c| a.wrapping_add(b) << (c & 31)),
    Vop3 0x1ff "v_add3_u32" => u3!(|a, b, c| a.wrapping_add(b).wrapping_add(c)),
    Vop3 0x200 "v_lshl_or_b32" => u3!(|a, b, c| a << (b & 31) | c),
    Vop3 0x201 "v_and_or_b32" => u3!(|a, b, c| a & b | c),
    Vop3 0x202 "v_or3_b32" => u3!(|a, b, c| a | b | c),
    Vop3 0x285 "v_mul_lo_u32" => u2!(u32::wrapping_mul),
    Vop3 0x286 "v_mul_hi_u32" => u2!(|a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
    Vop3 0x287 "v_mul_hi_i32" => u2!(|a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32),
    Vop3 0x28b "v_bcnt_u32_b32" => u2!(|a, b| a.count_ones().wrapping_add(b)),
    Vop3 0x293 "v_bfm_b32" => u2!(|a, b| ((1 << (a & 31)) - 1) << (b & 31)),
    Vop3 0x29c "v_add_i32" => sat!(u32::wrapping_add, |a, b| (a as i32).saturating_add(b as i32) as u32),
    Vop3 0x29d "v_sub_i32" => sat!(u32::wrapping_sub, |a, b| (a as i32).saturating_sub(b as i32) as u32),
];

fn signed24(a: u32) -> i32 {
    (a << 8) as i32 >> 8
}

fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Number of bits from the top that are the same, or all ones if all are.
pub(super) fn sign_bits(a: i32) -> u32 {
    let same = (a ^ (a >> 31)).leading_zeros();
    if same == 32 { u32::MAX } else { same }
}

fn bfe_i32(a: u32, b: u32, c: u32) -> u32 {
    let width = c & 31;
    if width == 0 {
        return 0;
    }
    let field = (a as i32 >> (b & 31)) as u32;
    ((field << (32 - width)) as i32 >> (32 - width)) as u32
}

/// The middle one of three.
pub(super) fn med<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.min(b).max(a.max(b).min(c))
}

fn sum(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

fn difference(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let taken = u64::from(b) + u64::from(borrow);
    (a.wrapping_sub(taken as u32), taken > u64::from(a))
}

/// An operation with a carry in operand 2 and a carry out for each lane.
#[inline(always)]
fn carry(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32, bool) -> (u32, bool)) {
    let (mut a, b) = (w.regs.lanes(i, 0), w.regs.lanes(i, 1));
    let before = w.regs.scalar64(i.src[2]);
    let mut after = 0;
    for lane in 0..64 {
        let (value, out) = f(a[lane], b[lane], before >> lane & 1 != 0);
        a[lane] = value;
        after |= u64::from(out) << lane;
    }
    let active = w.regs.active(i);
    w.regs.write(i, &a);
    w.regs.set_s64(i.sdst, after & active);
}
