//! Single precision.

use std::f64::consts::TAU;

use super::division::division;
use super::lanes::{modify, ops};
use crate::isa::float::{finish32, max32, med32, min32, scale};
use crate::isa::inst::{Inst, Op, Run};
use crate::isa::registers::Lanes;
use crate::isa::wave::Wave;

macro_rules! f1 {
    ($f:expr) => {
        Run::Alu(|w, i| unary(w, i, $f))
    };
}

macro_rules! f2 {
    ($f:expr) => {
        Run::Alu(|w, i| binary(w, i, $f))
    };
}

macro_rules! f3 {
    ($f:expr) => {
        Run::Alu(|w, i| ternary(w, i, $f))
    };
}

pub(super) const OPS: &[Op] = ops![
    Vop2 1 "v_add_f32" => f2!(|a, b| a + b),
    Vop2 2 "v_sub_f32" => f2!(|a, b| a - b),
    Vop2 3 "v_subrev_f32" => f2!(|a, b| b - a),
    Vop2 4 "v_mul_legacy_f32" => f2!(|a, b| if a == 0.0 || b == 0.0 { 0.0 } else { a * b }),
    Vop2 5 "v_mul_f32" => f2!(|a, b| a * b),
    Vop2 10 "v_min_f32" => f2!(min32),
    Vop2 11 "v_max_f32" => f2!(max32),
    Vop2 22 "v_mac_f32" => Run::Alu(mac),
    Vop2 23 "v_madmk_f32" => Run::Alu(madmk),
    Vop2 24 "v_madak_f32" => Run::Alu(madak),
    Vop2 59 "v_fmac_f32" => Run::Alu(fmac),
    Vop3 0x1c0 "v_mad_legacy_f32" => f3!(|a, b, c| c + if a == 0.0 || b == 0.0 { 0.0 } else { a * b }),
    Vop3 0x1c1 "v_mad_f32" => f3!(|a, b, c| a * b + c),
    Vop3 0x1cb "v_fma_f32" => Run::Alu(fma),
    Vop3 0x1d0 "v_min3_f32" => f3!(|a, b, c| min32(min32(a, b), c)),
    Vop3 0x1d3 "v_max3_f32" => f3!(|a, b, c| max32(max32(a, b), c)),
    Vop3 0x1d6 "v_med3_f32" => f3!(med32),
    Vop3 0x288 "v_ldexp_f32" => Run::Alu(ldexp),
    Vop1 27 "v_fract_f32" => f1!(fract),
    Vop1 28 "v_trunc_f32" => f1!(f32::trunc),
    Vop1 29 "v_ceil_f32" => f1!(f32::ceil),
    Vop1 30 "v_rndne_f32" => f1!(f32::round_ties_even),
    Vop1 31 "v_floor_f32" => f1!(f32::floor),
    Vop1 32 "v_exp_f32" => f1!(|a| f64::from(a).exp2() as f32),
    Vop1 33 "v_log_f32" => f1!(|a| f64::from(a).log2() as f32),
    Vop1 34 "v_rcp_f32" => f1!(|a| 1.0 / a),
    Vop1 35 "v_rcp_iflag_f32" => f1!(|a| 1.0 / a),
    Vop1 36 "v_rsq_f32" => f1!(|a| (1.0 / f64::from(a).sqrt()) as f32),
    Vop1 39 "v_sqrt_f32" => f1!(f32::sqrt),
    Vop1 41 "v_sin_f32" => f1!(|a| (f64::from(a) % 1.0 * TAU).sin() as f32),
    Vop1 42 "v_cos_f32" => f1!(|a| (f64::from(a) % 1.0 * TAU).cos() as f32),
    Vop1 51 "v_frexp_exp_i32_f32" => Run::Alu(frexp_exp),
    Vop1 52 "v_frexp_mant_f32" => f1!(mantissa),
    Vop1 75 "v_exp_legacy_f32" => f1!(|a| f64::from(a).exp2() as f32),
    Vop1 76 "v_log_legacy_f32" => f1!(|a| f64::from(a).log2() as f32),
    Vop3 0x1de "v_div_fixup_f32" => f3!(div_fixup),
    Vop3 0x1e0 "v_div_scale_f32" => Run::Alu(div_scale),
    Vop3 0x1e2 "v_div_fmas_f32" => Run::Alu(div_fmas),
];

/// The greatest float below one: a fraction never rounds up to one.
const BELOW_ONE: f32 = f32::from_bits(0x3f7f_ffff);

fn fract(a: f32) -> f32 {
    let part = a - a.floor();
    if part >= 1.0 { BELOW_ONE } else { part }
}

/// Operand `k` as bits of floats, with its modifiers.
#[inline(always)]
pub(super) fn operand(w: &Wave, i: &Inst, k: usize) -> Lanes<u32> {
    let mut lanes = w.regs.lanes(i, k);
    modify(i, k, &mut lanes, 0x8000_0000);
    lanes
}

/// Writes bits of floats.
#[inline(always)]
pub(super) fn finish(w: &mut Wave, i: &Inst, value: &mut Lanes<u32>) {
    finish32(i, value);
    w.regs.write(i, value);
}

#[inline(always)]
fn unary(w: &mut Wave, i: &Inst, f: impl Fn(f32) -> f32) {
    let mut a = operand(w, i, 0);
    for lane in &mut a {
        *lane = f(f32::from_bits(*lane)).to_bits();
    }
    finish(w, i, &mut a);
}

#[inline(always)]
fn binary(w: &mut Wave, i: &Inst, f: impl Fn(f32, f32) -> f32) {
    let (mut a, b) = (operand(w, i, 0), operand(w, i, 1));
    for lane in 0..64 {
        a[lane] = f(f32::from_bits(a[lane]), f32::from_bits(b[lane])).to_bits();
    }
    finish(w, i, &mut a);
}

#[inline(always)]
fn ternary(w: &mut Wave, i: &Inst, f: impl Fn(f32, f32, f32) -> f32) {
    let (mut a, b, c) = (operand(w, i, 0), operand(w, i, 1), operand(w, i, 2));
    for lane in 0..64 {
        let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
        a[lane] = f(x, y, z).to_bits();
    }
    finish(w, i, &mut a);
}

fn mac(w: &mut Wave, i: &Inst) {
    let (mut a, b, c) = (operand(w, i, 0), operand(w, i, 1), *w.regs.vgpr(i.dst));
    for lane in 0..64 {
        let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
        a[lane] = (x * y + z).to_bits();
    }
    finish(w, i, &mut a);
}

fn madmk(w: &mut Wave, i: &Inst) {
    let k = f32::from_bits(i.imm as u32);
    binary(w, i, |a, b| a * k + b);
}

fn madak(w: &mut Wave, i: &Inst) {
    let k = f32::from_bits(i.imm as u32);
    binary(w, i, |a, b| a * b + k);
}

fn fmac(w: &mut Wave, i: &Inst) {
    let (a, b, c) = (operand(w, i, 0), operand(w, i, 1), *w.regs.vgpr(i.dst));
    let mut value = fused(&a, &b, &c);
    finish(w, i, &mut value);
}

fn fma(w: &mut Wave, i: &Inst) {
    let (a, b, c) = (operand(w, i, 0), operand(w, i, 1), operand(w, i, 2));
    let mut value = fused(&a, &b, &c);
    finish(w, i, &mut value);
}

/// `a * b + c`, rounded once.
#[inline]
pub(super) fn fused(a: &Lanes<u32>, b: &Lanes<u32>, c: &Lanes<u32>) -> Lanes<u32> {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("fma") && std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has both.
        return unsafe { fused_x86(a, b, c) };
    }
    fused_lanes(a, b, c)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "fma,avx2")]
fn fused_x86(a: &Lanes<u32>, b: &Lanes<u32>, c: &Lanes<u32>) -> Lanes<u32> {
    fused_lanes(a, b, c)
}

#[inline(always)]
fn fused_lanes(a: &Lanes<u32>, b: &Lanes<u32>, c: &Lanes<u32>) -> Lanes<u32> {
    let mut out = [0; 64];
    for lane in 0..64 {
        let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
        out[lane] = x.mul_add(y, z).to_bits();
    }
    out
}

fn ldexp(w: &mut Wave, i: &Inst) {
    let (mut a, b) = (operand(w, i, 0), w.regs.lanes(i, 1));
    for lane in 0..64 {
        a[lane] = power(f32::from_bits(a[lane]), b[lane] as i32).to_bits();
    }
    finish(w, i, &mut a);
}

/// Times a power of two.
fn power(value: f32, exponent: i32) -> f32 {
    scale(f64::from(value), exponent.clamp(-500, 500)) as f32
}

fn frexp_exp(w: &mut Wave, i: &Inst) {
    let a = operand(w, i, 0).map(|bits| exponent(f32::from_bits(bits)) as u32);
    w.regs.write(i, &a);
}

/// The exponent for a mantissa of 0.5 to 1; 0 for zero, infinity and NaN.
fn exponent(value: f32) -> i32 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    (f64::from(value).to_bits() >> 52 & 0x7ff) as i32 - 1022
}

fn mantissa(value: f32) -> f32 {
    if value == 0.0 || !value.is_finite() { value } else { power(value, -exponent(value)) }
}

/// The exponent as it stands in the bits.
fn raw_exponent(value: f32) -> i32 {
    (value.to_bits() >> 23 & 0xff) as i32
}

division!(f32 {
    nan: 0xffc0_0000,
    underflow: -150,
    overflow: 96,
    small: 23,
    shift: 64,
    scale: power,
    inverse: inverse,
});

/// 1 / `d`.
fn inverse(d: f32) -> f32 {
    (1.0 / f64::from(d)) as f32
}

fn div_scale(w: &mut Wave, i: &Inst) {
    let [mut a, b, c] = [0, 1, 2].map(|k| operand(w, i, k));
    let mut flags = 0;
    for lane in 0..64 {
        let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
        let (value, flag) = scaled(x, y, z);
        a[lane] = value.to_bits();
        flags |= u64::from(flag) << lane;
    }
    let active = w.regs.active(i);
    finish(w, i, &mut a);
    w.regs.set_s64(i.sdst, flags & active);
}

/// The step before the last: a fused multiply-add that undoes the scaling of the lanes in VCC.
fn div_fmas(w: &mut Wave, i: &Inst) {
    let [a, b, c] = [0, 1, 2].map(|k| operand(w, i, k));
    let mut value = fused(&a, &b, &c);
    let vcc = w.regs.vcc();
    for lane in (0..64).filter(|lane| vcc >> lane & 1 != 0) {
        let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
        // The quotient tells whether it is too small or too large; the result is rounded once.
        let by = if raw_exponent(z) > 127 { 64 } else { -64 };
        value[lane] = (scale(odd_sum(f64::from(x) * f64::from(y), z.into()), by) as f32).to_bits();
    }
    finish(w, i, &mut value);
}

/// A sum whose last bit is odd if it isn't exact, so that rounding it again gives what rounding
/// once does.
fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    if error == 0.0 || !error.is_finite() || sum.to_bits() & 1 != 0 {
        return sum;
    }
    let outward = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if outward { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}
