//! Integers of 16 bits.

use super::half;
use super::int::med;
use super::lanes::ops;
use crate::isa::inst::{Inst, Op, Run};
use crate::isa::wave::Wave;

macro_rules! s2 {
    ($f:expr) => {
        Run::Alu(|w, i| binary(w, i, $f))
    };
    ($wrapping:expr, $saturating:expr) => {
        Run::Alu(|w, i| if i.clamp { binary(w, i, $saturating) } else { binary(w, i, $wrapping) })
    };
}

macro_rules! s3 {
    ($f:expr) => {
        Run::Alu(|w, i| ternary(w, i, false, $f))
    };
    (keep $f:expr) => {
        Run::Alu(|w, i| ternary(w, i, true, $f))
    };
}

pub(super) const OPS: &[Op] = ops![
    Vop2 38 "v_add_u16" => s2!(u16::wrapping_add, u16::saturating_add),
    Vop2 39 "v_sub_u16" => s2!(u16::wrapping_sub, u16::saturating_sub),
    Vop2 40 "v_subrev_u16" => s2!(|a, b| b.wrapping_sub(a), |a, b| b.saturating_sub(a)),
    Vop2 41 "v_mul_lo_u16" => s2!(u16::wrapping_mul),
    Vop2 42 "v_lshlrev_b16" => s2!(|a, b| b << (a & 15)),
    Vop2 43 "v_lshrrev_b16" => s2!(|a, b| b >> (a & 15)),
    Vop2 44 "v_ashrrev_i16" => s2!(|a, b| (b as i16 >> (a & 15)) as u16),
    Vop2 47 "v_max_u16" => s2!(|a, b| a.max(b)),
    Vop2 48 "v_max_i16" => s2!(|a, b| (a as i16).max(b as i16) as u16),
    Vop2 49 "v_min_u16" => s2!(|a, b| a.min(b)),
    Vop2 50 "v_min_i16" => s2!(|a, b| (a as i16).min(b as i16) as u16),
    Vop3 0x1eb "v_mad_legacy_u16" => s3!(mad),
    Vop3 0x1ec "v_mad_legacy_i16" => s3!(mad),
    Vop3 0x1f1 "v_mad_u32_u16" => Run::Alu(|w, i| widening(w, i, |a, b| u32::from(a) * u32::from(b))),
    Vop3 0x1f2 "v_mad_i32_i16" => Run::Alu(|w, i| widening(w, i, |a, b| {
        (i32::from(a as i16) * i32::from(b as i16)) as u32
    })),
    Vop3 0x1f5 "v_min3_i16" => s3!(|a, b, c| (a as i16).min(b as i16).min(c as i16) as u16),
    Vop3 0x1f6 "v_min3_u16" => s3!(|a, b, c| a.min(b).min(c)),
    Vop3 0x1f8 "v_max3_i16" => s3!(|a, b, c| (a as i16).max(b as i16).max(c as i16) as u16),
    Vop3 0x1f9 "v_max3_u16" => s3!(|a, b, c| a.max(b).max(c)),
    Vop3 0x1fb "v_med3_i16" => s3!(|a, b, c| med(a as i16, b as i16, c as i16) as u16),
    Vop3 0x1fc "v_med3_u16" => s3!(med),
    Vop3 0x204 "v_mad_u16" => s3!(keep mad),
    Vop3 0x205 "v_mad_i16" => s3!(keep mad),
    Vop3 0x29e "v_add_i16" => s2!(u16::wrapping_add, |a, b| (a as i16).saturating_add(b as i16) as u16),
    Vop3 0x29f "v_sub_i16" => s2!(u16::wrapping_sub, |a, b| (a as i16).saturating_sub(b as i16) as u16),
];

fn mad(a: u16, b: u16, c: u16) -> u16 {
    a.wrapping_mul(b).wrapping_add(c)
}

#[inline(always)]
fn binary(w: &mut Wave, i: &Inst, f: impl Fn(u16, u16) -> u16) {
    let (mut a, b) = (w.regs.halves(i, 0), w.regs.halves(i, 1));
    for lane in 0..64 {
        a[lane] = u32::from(f(a[lane] as u16, b[lane] as u16));
    }
    half::write(w, i, &mut a, false);
}

#[inline(always)]
fn ternary(w: &mut Wave, i: &Inst, keep: bool, f: impl Fn(u16, u16, u16) -> u16) {
    let (mut a, b, c) = (w.regs.halves(i, 0), w.regs.halves(i, 1), w.regs.halves(i, 2));
    for lane in 0..64 {
        a[lane] = u32::from(f(a[lane] as u16, b[lane] as u16, c[lane] as u16));
    }
    half::write(w, i, &mut a, keep);
}

/// A product of 16 bits each, plus 32 bits.
fn widening(w: &mut Wave, i: &Inst, f: impl Fn(u16, u16) -> u32) {
    let (mut a, b, c) = (w.regs.halves(i, 0), w.regs.halves(i, 1), w.regs.lanes(i, 2));
    for lane in 0..64 {
        a[lane] = f(a[lane] as u16, b[lane] as u16).wrapping_add(c[lane]);
    }
    w.regs.write(i, &a);
}
