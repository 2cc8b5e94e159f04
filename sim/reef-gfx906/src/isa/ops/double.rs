//! Double precision.

use super::division::division;
use super::lanes::ops;
use crate::isa::float::{finish64, max64, min64, scale};
use crate::isa::inst::{Inst, Op, Run};
use crate::isa::registers::Lanes;
use crate::isa::wave::Wave;

macro_rules! d1 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let value = operand(w, i, 0).map($f);
            finish(w, i, &value);
        })
    };
}

macro_rules! d2 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let (a, b) = (operand(w, i, 0), operand(w, i, 1));
            let value = std::array::from_fn(|lane| $f(a[lane], b[lane]));
            finish(w, i, &value);
        })
    };
}

macro_rules! d3 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let [a, b, c] = [0, 1, 2].map(|k| operand(w, i, k));
            let value = std::array::from_fn(|lane| $f(a[lane], b[lane], c[lane]));
            finish(w, i, &value);
        })
    };
}

pub(super) const OPS: &[Op] = ops![
    Vop1 23 "v_trunc_f64" => d1!(f64::trunc),
    Vop1 24 "v_ceil_f64" => d1!(f64::ceil),
    Vop1 25 "v_rndne_f64" => d1!(f64::round_ties_even),
    Vop1 26 "v_floor_f64" => d1!(f64::floor),
    Vop1 37 "v_rcp_f64" => d1!(|a| 1.0 / a),
    Vop1 38 "v_rsq_f64" => d1!(|a: f64| 1.0 / a.sqrt()),
    Vop1 40 "v_sqrt_f64" => d1!(f64::sqrt),
    Vop1 48 "v_frexp_exp_i32_f64" => Run::Alu(frexp_exp),
    Vop1 49 "v_frexp_mant_f64" => d1!(mantissa),
    Vop1 50 "v_fract_f64" => d1!(fract),
    Vop3 0x1cc "v_fma_f64" => d3!(f64::mul_add),
    Vop3 0x1df "v_div_fixup_f64" => d3!(div_fixup),
    Vop3 0x1e1 "v_div_scale_f64" => Run::Alu(div_scale),
    Vop3 0x1e3 "v_div_fmas_f64" => Run::Alu(div_fmas),
    Vop3 0x280 "v_add_f64" => d2!(|a: f64, b: f64| a + b),
    Vop3 0x281 "v_mul_f64" => d2!(|a: f64, b: f64| a * b),
    Vop3 0x282 "v_min_f64" => d2!(min64),
    Vop3 0x283 "v_max_f64" => d2!(max64),
    Vop3 0x284 "v_ldexp_f64" => Run::Alu(ldexp),
];

/// The greatest double below one.
const BELOW_ONE: f64 = f64::from_bits(0x3fef_ffff_ffff_ffff);

fn fract(a: f64) -> f64 {
    let part = a - a.floor();
    if part >= 1.0 { BELOW_ONE } else { part }
}

/// Operand `k` with its modifiers.
pub(super) fn operand(w: &Wave, i: &Inst, k: usize) -> Lanes<f64> {
    let (abs, neg) = (i.abs >> k & 1 != 0, i.neg >> k & 1 != 0);
    w.regs.doubles(i, k).map(|bits| {
        let bits = if abs { bits & !(1 << 63) } else { bits };
        f64::from_bits(if neg { bits ^ 1 << 63 } else { bits })
    })
}

pub(super) fn finish(w: &mut Wave, i: &Inst, value: &Lanes<f64>) {
    let bits = match (i.omod, i.clamp) {
        (0, false) => value.map(f64::to_bits),
        _ => value.map(|value| finish64(i, value).to_bits()),
    };
    w.regs.write64(i, &bits);
}

fn ldexp(w: &mut Wave, i: &Inst) {
    let (a, b) = (operand(w, i, 0), w.regs.lanes(i, 1));
    let value = std::array::from_fn(|lane| scale(a[lane], b[lane] as i32));
    finish(w, i, &value);
}

fn frexp_exp(w: &mut Wave, i: &Inst) {
    let value = operand(w, i, 0).map(|a| exponent(a) as u32);
    w.regs.write(i, &value);
}

/// The exponent for a mantissa of 0.5 to 1; 0 for zero, infinity and NaN.
fn exponent(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let (normal, less) = if value.is_subnormal() { (scale(value, 54), 54) } else { (value, 0) };
    (normal.to_bits() >> 52 & 0x7ff) as i32 - 1022 - less
}

fn mantissa(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() { value } else { scale(value, -exponent(value)) }
}

fn raw_exponent(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7ff) as i32
}

division!(f64 {
    nan: 0xfff8_0000_0000_0000,
    underflow: -1075,
    overflow: 768,
    small: 53,
    shift: 128,
    scale: scale,
    inverse: f64::recip,
});

fn div_scale(w: &mut Wave, i: &Inst) {
    let [a, b, c] = [0, 1, 2].map(|k| operand(w, i, k));
    let both: Lanes<_> = std::array::from_fn(|lane| scaled(a[lane], b[lane], c[lane]));
    let flags = (0..64).fold(0, |flags, lane| flags | u64::from(both[lane].1) << lane);
    let active = w.regs.active(i);
    finish(w, i, &both.map(|(value, _)| value));
    w.regs.set_s64(i.sdst, flags & active);
}

/// The step before the last: a fused multiply-add that undoes the scaling of the lanes in VCC.
fn div_fmas(w: &mut Wave, i: &Inst) {
    let [a, b, c] = [0, 1, 2].map(|k| operand(w, i, k));
    let vcc = w.regs.vcc();
    let value = std::array::from_fn(|lane| match vcc >> lane & 1 {
        0 => a[lane].mul_add(b[lane], c[lane]),
        _ => scaled_sum(a[lane], b[lane], c[lane]),
    });
    finish(w, i, &value);
}

/// `a * b + c` times the power that the quotient `c` asks for, rounded once.
fn scaled_sum(a: f64, b: f64, c: f64) -> f64 {
    let sum = a.mul_add(b, c);
    let by = if raw_exponent(c) > 1023 { 128 } else { -128 };
    let plain = scale(sum, by);
    // Exact, as `a * b` is small compared with `c`.
    let error = a.mul_add(b, c - sum);
    let dropped = 1 - raw_exponent(sum) - by;
    if !plain.is_subnormal() || !(1..=53).contains(&dropped) || raw_exponent(sum) == 0 {
        return plain;
    }
    // A sum that lies halfway was rounded to an even one; its error says where it really lies.
    let whole = sum.to_bits() & ((1 << 52) - 1) | 1 << 52;
    let halfway = whole & ((1 << dropped) - 1) == 1 << (dropped - 1);
    if !halfway || error == 0.0 || error.is_nan() {
        return plain;
    }
    let outward = (error > 0.0) == (sum > 0.0);
    f64::from_bits((whole >> dropped) + u64::from(outward)).copysign(sum)
}
