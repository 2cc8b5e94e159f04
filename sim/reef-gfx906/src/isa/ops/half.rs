//! Half precision. Sums and products of halves are exact enough in a float to be rounded once more.

use std::f64::consts::TAU;

use super::lanes::{modify, ops};
use crate::isa::float::{
    factor, from_half, max32, med32, min32, to_half, to_half_from_double, unit,
};
use crate::isa::inst::{Inst, Op, Run};
use crate::isa::registers::Lanes;
use crate::isa::wave::Wave;

macro_rules! h1 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let mut a = operand(w, i, 0);
            for lane in &mut a {
                *lane = to_half($f(from_half(*lane)));
            }
            finish(w, i, &mut a);
        })
    };
}

macro_rules! h2 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let (mut a, b) = (operand(w, i, 0), operand(w, i, 1));
            for lane in 0..64 {
                a[lane] = to_half($f(from_half(a[lane]), from_half(b[lane])));
            }
            finish(w, i, &mut a);
        })
    };
}

/// Three operands; the other half of the result's register stays if `$keep`.
macro_rules! h3 {
    ($f:expr) => {
        Run::Alu(|w, i| ternary(w, i, false, $f))
    };
    (keep $f:expr) => {
        Run::Alu(|w, i| ternary(w, i, true, $f))
    };
}

pub(super) const OPS: &[Op] = ops![
    Vop1 61 "v_rcp_f16" => h1!(|a| 1.0 / a),
    Vop1 62 "v_sqrt_f16" => h1!(f32::sqrt),
    Vop1 63 "v_rsq_f16" => h1!(|a: f32| (1.0 / f64::from(a).sqrt()) as f32),
    Vop1 64 "v_log_f16" => h1!(f32::log2),
    Vop1 65 "v_exp_f16" => h1!(f32::exp2),
    Vop1 66 "v_frexp_mant_f16" => h1!(mantissa),
    Vop1 67 "v_frexp_exp_i16_f16" => Run::Alu(frexp_exp),
    Vop1 68 "v_floor_f16" => h1!(f32::floor),
    Vop1 69 "v_ceil_f16" => h1!(f32::ceil),
    Vop1 70 "v_trunc_f16" => h1!(f32::trunc),
    Vop1 71 "v_rndne_f16" => h1!(f32::round_ties_even),
    Vop1 72 "v_fract_f16" => h1!(fract),
    Vop1 73 "v_sin_f16" => h1!(|a| (f64::from(a) % 1.0 * TAU).sin() as f32),
    Vop1 74 "v_cos_f16" => h1!(|a| (f64::from(a) % 1.0 * TAU).cos() as f32),
    Vop2 31 "v_add_f16" => h2!(|a, b| a + b),
    Vop2 32 "v_sub_f16" => h2!(|a, b| a - b),
    Vop2 33 "v_subrev_f16" => h2!(|a: f32, b: f32| b - a),
    Vop2 34 "v_mul_f16" => h2!(|a, b| a * b),
    Vop2 35 "v_mac_f16" => Run::Alu(mac),
    Vop2 36 "v_madmk_f16" => Run::Alu(madmk),
    Vop2 37 "v_madak_f16" => Run::Alu(madak),
    Vop2 45 "v_max_f16" => h2!(max32),
    Vop2 46 "v_min_f16" => h2!(min32),
    Vop2 51 "v_ldexp_f16" => Run::Alu(ldexp),
    Vop3 0x1ea "v_mad_legacy_f16" => h3!(mad),
    Vop3 0x1ee "v_fma_legacy_f16" => h3!(fma),
    Vop3 0x1ef "v_div_fixup_legacy_f16" => h3!(div_fixup),
    Vop3 0x1f4 "v_min3_f16" => h3!(|a, b, c| to_half(min32(min32(from_half(a), from_half(b)), from_half(c)))),
    Vop3 0x1f7 "v_max3_f16" => h3!(|a, b, c| to_half(max32(max32(from_half(a), from_half(b)), from_half(c)))),
    Vop3 0x1fa "v_med3_f16" => h3!(|a, b, c| to_half(med32(from_half(a), from_half(b), from_half(c)))),
    Vop3 0x203 "v_mad_f16" => h3!(keep mad),
    Vop3 0x206 "v_fma_f16" => h3!(keep fma),
    Vop3 0x207 "v_div_fixup_f16" => h3!(keep div_fixup),
    Vop3 0x2a0 "v_pack_b32_f16" => Run::Alu(pack),
];

/// The greatest half below one.
const BELOW_ONE: f32 = 0.999_511_7;

fn fract(a: f32) -> f32 {
    let part = a - a.floor();
    if part > BELOW_ONE { BELOW_ONE } else { part }
}

/// Operand `k` as bits of halves, with its modifiers.
#[inline(always)]
pub(super) fn operand(w: &Wave, i: &Inst, k: usize) -> Lanes<u32> {
    let mut lanes = w.regs.halves(i, k);
    modify(i, k, &mut lanes, 0x8000);
    lanes
}

/// Applies the output modifiers and writes; the other half of the register becomes zero.
#[inline(always)]
pub(super) fn finish(w: &mut Wave, i: &Inst, value: &mut Lanes<u32>) {
    if i.omod != 0 || i.clamp {
        output(i, value);
    }
    write(w, i, value, false);
}

#[cold]
pub(super) fn output(i: &Inst, value: &mut Lanes<u32>) {
    for lane in value {
        let x = from_half(*lane) * factor(i.omod);
        *lane = to_half(if i.clamp { unit(f64::from(x)) as f32 } else { x });
    }
}

/// Writes the half of the result that `op_sel` says; the other half becomes zero or stays.
pub(super) fn write(w: &mut Wave, i: &Inst, value: &mut Lanes<u32>, keep: bool) {
    let high = i.op_sel & 8 != 0;
    if high || keep {
        let old = w.regs.vgpr(i.dst);
        for lane in 0..64 {
            let half = value[lane] & 0xffff;
            value[lane] =
                if high { half << 16 | old[lane] & 0xffff } else { old[lane] & !0xffff | half };
        }
    }
    w.regs.write(i, value);
}

fn ternary(w: &mut Wave, i: &Inst, keep: bool, f: impl Fn(u32, u32, u32) -> u32) {
    let [mut a, b, c] = [0, 1, 2].map(|k| operand(w, i, k));
    for lane in 0..64 {
        a[lane] = f(a[lane], b[lane], c[lane]);
    }
    if i.omod != 0 || i.clamp {
        output(i, &mut a);
    }
    write(w, i, &mut a, keep);
}

/// Product and sum, each rounded.
fn mad(a: u32, b: u32, c: u32) -> u32 {
    let product = from_half(to_half(from_half(a) * from_half(b)));
    to_half(product + from_half(c))
}

/// Product and sum, rounded once: no sum of a product of halves and a half that matters for the
/// rounding has more bits than a double.
pub(super) fn fma(a: u32, b: u32, c: u32) -> u32 {
    let [a, b, c] = [a, b, c].map(|half| f64::from(from_half(half)));
    to_half_from_double(a * b + c)
}

fn mac(w: &mut Wave, i: &Inst) {
    let (mut a, b, c) = (operand(w, i, 0), operand(w, i, 1), *w.regs.vgpr(i.dst));
    for lane in 0..64 {
        a[lane] = mad(a[lane], b[lane], c[lane] & 0xffff);
    }
    finish(w, i, &mut a);
}

fn madmk(w: &mut Wave, i: &Inst) {
    let (mut a, b) = (operand(w, i, 0), operand(w, i, 1));
    for lane in 0..64 {
        a[lane] = mad(a[lane], i.imm as u32 & 0xffff, b[lane]);
    }
    finish(w, i, &mut a);
}

fn madak(w: &mut Wave, i: &Inst) {
    let (mut a, b) = (operand(w, i, 0), operand(w, i, 1));
    for lane in 0..64 {
        a[lane] = mad(a[lane], b[lane], i.imm as u32 & 0xffff);
    }
    finish(w, i, &mut a);
}

fn power(value: f32, exponent: i32) -> f32 {
    value * f32::from_bits(((exponent.clamp(-60, 60) + 127) as u32) << 23)
}

fn ldexp(w: &mut Wave, i: &Inst) {
    let (mut a, b) = (operand(w, i, 0), w.regs.lanes(i, 1));
    for lane in 0..64 {
        a[lane] = to_half(power(from_half(a[lane]), i32::from(b[lane] as i16)));
    }
    finish(w, i, &mut a);
}

/// The exponent for a mantissa of 0.5 to 1; 0 for zero, infinity and NaN.
fn exponent(value: f32) -> i32 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    (value.to_bits() >> 23 & 0xff) as i32 - 126
}

fn frexp_exp(w: &mut Wave, i: &Inst) {
    let a = operand(w, i, 0).map(|bits| exponent(from_half(bits)) as u32 & 0xffff);
    w.regs.write(i, &a);
}

fn mantissa(value: f32) -> f32 {
    if value == 0.0 || !value.is_finite() { value } else { power(value, -exponent(value)) }
}

fn div_fixup(quotient: u32, denominator: u32, numerator: u32) -> u32 {
    let sign = (denominator ^ numerator) & 0x8000;
    let (d, n) = (denominator & 0x7fff, numerator & 0x7fff);
    let infinity = 0x7c00;
    if n > infinity {
        numerator | 0x200
    } else if d > infinity {
        denominator | 0x200
    } else if (n == 0 && d == 0) || (n == infinity && d == infinity) {
        0xfe00
    } else if d == 0 || n == infinity {
        sign | infinity
    } else if d == infinity || n == 0 {
        sign
    } else {
        sign | quotient & 0x7fff
    }
}

fn pack(w: &mut Wave, i: &Inst) {
    let (mut a, b) = (operand(w, i, 0), operand(w, i, 1));
    for lane in 0..64 {
        a[lane] |= b[lane] << 16;
    }
    w.regs.write(i, &a);
}
