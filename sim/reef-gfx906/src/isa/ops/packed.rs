//! Two halves in a register, mixed precision, and dot products (VOP3P).

use super::lanes::ops;
use super::{float, half};
use crate::isa::float::{from_half, max32, min32, to_half, unit};
use crate::isa::inst::{Inst, Op, Run, Src};
use crate::isa::registers::{Lanes, inline_f16};
use crate::isa::wave::Wave;

/// Pairs of 16-bit integers, with another operation when the result is to be clamped.
macro_rules! i2 {
    ($f:expr) => {
        Run::Alu(|w, i| integers(w, i, |a, b, _| $f(a, b)))
    };
    ($wrapping:expr, $saturating:expr) => {
        Run::Alu(|w, i| {
            if i.clamp {
                integers(w, i, |a, b, _| $saturating(a, b))
            } else {
                integers(w, i, |a, b, _| $wrapping(a, b))
            }
        })
    };
}

macro_rules! h2 {
    ($f:expr) => {
        Run::Alu(|w, i| halves(w, i, |a, b, _| to_half($f(from_half(a), from_half(b)))))
    };
}

macro_rules! dot {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let (mut a, b, c) = (w.regs.lanes(i, 0), w.regs.lanes(i, 1), w.regs.lanes(i, 2));
            for lane in 0..64 {
                a[lane] = $f(a[lane], b[lane], c[lane], i.clamp);
            }
            w.regs.write(i, &a);
        })
    };
}

pub(super) const OPS: &[Op] = ops![
    Vop3p 0 "v_pk_mad_i16" => Run::Alu(|w, i| integers(w, i, mad)),
    Vop3p 1 "v_pk_mul_lo_u16" => i2!(u16::wrapping_mul),
    Vop3p 2 "v_pk_add_i16" => i2!(u16::wrapping_add, |a, b| (a as i16).saturating_add(b as i16) as u16),
    Vop3p 3 "v_pk_sub_i16" => i2!(u16::wrapping_sub, |a, b| (a as i16).saturating_sub(b as i16) as u16),
    Vop3p 4 "v_pk_lshlrev_b16" => i2!(|a, b| b << (a & 15)),
    Vop3p 5 "v_pk_lshrrev_b16" => i2!(|a, b| b >> (a & 15)),
    Vop3p 6 "v_pk_ashrrev_i16" => i2!(|a, b| (b as i16 >> (a & 15)) as u16),
    Vop3p 7 "v_pk_max_i16" => i2!(|a, b| (a as i16).max(b as i16) as u16),
    Vop3p 8 "v_pk_min_i16" => i2!(|a, b| (a as i16).min(b as i16) as u16),
    Vop3p 9 "v_pk_mad_u16" => Run::Alu(|w, i| integers(w, i, mad)),
    Vop3p 10 "v_pk_add_u16" => i2!(u16::wrapping_add, u16::saturating_add),
    Vop3p 11 "v_pk_sub_u16" => i2!(u16::wrapping_sub, u16::saturating_sub),
    Vop3p 12 "v_pk_max_u16" => i2!(|a: u16, b| a.max(b)),
    Vop3p 13 "v_pk_min_u16" => i2!(|a: u16, b| a.min(b)),
    Vop3p 14 "v_pk_fma_f16" => Run::Alu(|w, i| halves(w, i, half::fma)),
    Vop3p 15 "v_pk_add_f16" => h2!(|a, b| a + b),
    Vop3p 16 "v_pk_mul_f16" => h2!(|a, b| a * b),
    Vop3p 17 "v_pk_min_f16" => h2!(min32),
    Vop3p 18 "v_pk_max_f16" => h2!(max32),
    Vop3p 0x20 "v_fma_mix_f32" => Run::Alu(mix),
    Vop3p 0x21 "v_fma_mixlo_f16" => Run::Alu(|w, i| mix_half(w, i, 0)),
    Vop3p 0x22 "v_fma_mixhi_f16" => Run::Alu(|w, i| mix_half(w, i, 16)),
    Vop3p 0x23 "v_dot2_f32_f16" => Run::Alu(dot2_f32_f16),
    Vop3p 0x26 "v_dot2_i32_i16" => dot!(|a, b, c, clamp| signed(a, b, c, 16, clamp)),
    Vop3p 0x27 "v_dot2_u32_u16" => dot!(|a, b, c, clamp| unsigned(a, b, c, 16, clamp)),
    Vop3p 0x28 "v_dot4_i32_i8" => dot!(|a, b, c, clamp| signed(a, b, c, 8, clamp)),
    Vop3p 0x29 "v_dot4_u32_u8" => dot!(|a, b, c, clamp| unsigned(a, b, c, 8, clamp)),
    Vop3p 0x2a "v_dot8_i32_i4" => dot!(|a, b, c, clamp| signed(a, b, c, 4, clamp)),
    Vop3p 0x2b "v_dot8_u32_u4" => dot!(|a, b, c, clamp| unsigned(a, b, c, 4, clamp)),
];

/// The 16 bits of operand `k` that go into one half of the result: the lower one or the upper one.
#[inline(always)]
fn part(i: &Inst, k: usize, all: &Lanes<u32>, upper: bool) -> Lanes<u32> {
    let select = if upper { i.op_sel_hi } else { i.op_sel };
    let shift = if select >> k & 1 != 0 { 16 } else { 0 };
    let mut out = [0; 64];
    for lane in 0..64 {
        out[lane] = all[lane] >> shift & 0xffff;
    }
    out
}

#[inline(always)]
fn pairs(w: &mut Wave, i: &Inst, float: bool, f: impl Fn(u32, u32, u32) -> u32) -> Lanes<u32> {
    let all = [0, 1, 2].map(|k| match i.src[k] {
        Src::Inline(code @ 240..=248) if float => [inline_f16(code); 64],
        _ => w.regs.lanes(i, k),
    });
    let mut out = [0; 64];
    for (upper, negate) in [(false, i.neg), (true, i.neg_hi)] {
        let [a, b, c] = [0, 1, 2].map(|k| {
            let mut part = part(i, k, &all[k], upper);
            if float && negate >> k & 1 != 0 {
                part.iter_mut().for_each(|lane| *lane ^= 0x8000);
            }
            part
        });
        let mut value = [0; 64];
        for lane in 0..64 {
            value[lane] = f(a[lane], b[lane], c[lane]);
        }
        if float && i.clamp {
            half::output(i, &mut value);
        }
        for lane in 0..64 {
            out[lane] |= (value[lane] & 0xffff) << if upper { 16 } else { 0 };
        }
    }
    out
}

#[inline(always)]
fn integers(w: &mut Wave, i: &Inst, f: impl Fn(u16, u16, u16) -> u16) {
    let out = pairs(w, i, false, |a, b, c| u32::from(f(a as u16, b as u16, c as u16)));
    w.regs.write(i, &out);
}

#[inline(always)]
fn halves(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32, u32) -> u32) {
    let out = pairs(w, i, true, f);
    w.regs.write(i, &out);
}

fn mad(a: u16, b: u16, c: u16) -> u16 {
    a.wrapping_mul(b).wrapping_add(c)
}

/// Operand `k` of a mixed instruction: a float, or one half of the register. `neg_hi` stands for
/// `abs`.
#[inline(always)]
fn mixed(w: &Wave, i: &Inst, k: usize) -> Lanes<u32> {
    let is_half = i.op_sel_hi >> k & 1 != 0;
    let mut lanes = match i.src[k] {
        Src::Inline(code @ 240..=248) if is_half => [inline_f16(code); 64],
        _ => w.regs.lanes(i, k),
    };
    if is_half {
        let shift = if i.op_sel >> k & 1 != 0 { 16 } else { 0 };
        for lane in &mut lanes {
            *lane = from_half(*lane >> shift & 0xffff).to_bits();
        }
    }
    if i.neg_hi >> k & 1 != 0 {
        lanes.iter_mut().for_each(|lane| *lane &= 0x7fff_ffff);
    }
    if i.neg >> k & 1 != 0 {
        lanes.iter_mut().for_each(|lane| *lane ^= 0x8000_0000);
    }
    lanes
}

fn mix(w: &mut Wave, i: &Inst) {
    let [a, b, c] = [0, 1, 2].map(|k| mixed(w, i, k));
    let mut value = float::fused(&a, &b, &c);
    float::finish(w, i, &mut value);
}

/// Writes one half of the result's register.
fn mix_half(w: &mut Wave, i: &Inst, shift: u32) {
    let [a, b, c] = [0, 1, 2].map(|k| mixed(w, i, k));
    let mut value = float::fused(&a, &b, &c);
    let old = w.regs.vgpr(i.dst);
    for lane in 0..64 {
        let x = f32::from_bits(value[lane]);
        let half = to_half(if i.clamp { unit(f64::from(x)) as f32 } else { x });
        value[lane] = old[lane] & !(0xffff << shift) | half << shift;
    }
    w.regs.write(i, &value);
}

fn dot2_f32_f16(w: &mut Wave, i: &Inst) {
    let [a, b, c] = [0, 1, 2].map(|k| w.regs.lanes(i, k));
    let negative = |k: usize, upper: bool| {
        let bits = if upper { i.neg_hi } else { i.neg };
        if bits >> k & 1 != 0 { -1f32 } else { 1.0 }
    };
    let mut value = c;
    for upper in [false, true] {
        let (x, y) = (part(i, 0, &a, upper), part(i, 1, &b, upper));
        for lane in 0..64 {
            let x = from_half(x[lane]) * negative(0, upper);
            let y = from_half(y[lane]) * negative(1, upper);
            value[lane] = (f32::from_bits(value[lane]) + x * y).to_bits();
        }
    }
    float::finish(w, i, &mut value);
}

/// The sum of products of `width`-bit parts and `c`.
fn signed(a: u32, b: u32, c: u32, width: u32, clamp: bool) -> u32 {
    let part = |x: u32, at: u32| i64::from((x << (32 - width - at)) as i32 >> (32 - width));
    let products = (0..32).step_by(width as usize).map(|at| part(a, at) * part(b, at));
    let sum = products.sum::<i64>() + i64::from(c as i32);
    if clamp { sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32 } else { sum as u32 }
}

fn unsigned(a: u32, b: u32, c: u32, width: u32, clamp: bool) -> u32 {
    let part = |x: u32, at: u32| u64::from(x << (32 - width - at) >> (32 - width));
    let products = (0..32).step_by(width as usize).map(|at| part(a, at) * part(b, at));
    let sum = products.sum::<u64>() + u64::from(c);
    if clamp { sum.min(u32::MAX.into()) as u32 } else { sum as u32 }
}
