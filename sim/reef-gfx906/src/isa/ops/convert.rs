//! Conversions. Floats become integers as Rust's `as` does it: towards zero, saturating, NaN to 0.

use super::lanes::ops;
use super::{double, float, half};
use crate::isa::float::{from_half, to_half, to_half_toward_zero};
use crate::isa::inst::{Inst, Op, Run};
use crate::isa::registers::Lanes;
use crate::isa::wave::Wave;

/// Conversion from bits to a float.
macro_rules! to_f32 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let mut a = w.regs.lanes(i, 0);
            for lane in &mut a {
                let value: f32 = $f(*lane);
                *lane = value.to_bits();
            }
            float::finish(w, i, &mut a);
        })
    };
}

/// Conversion from a float to bits.
macro_rules! from_f32 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let mut a = float::operand(w, i, 0);
            for lane in &mut a {
                *lane = $f(f32::from_bits(*lane));
            }
            w.regs.write(i, &a);
        })
    };
}

/// Conversion from bits to a double.
macro_rules! to_f64 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let value = w.regs.lanes(i, 0).map($f);
            double::finish(w, i, &value);
        })
    };
}

/// Conversion from a double to bits.
macro_rules! from_f64 {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let value = double::operand(w, i, 0).map($f);
            w.regs.write(i, &value);
        })
    };
}

/// Two floats to a pair of 16 bits.
macro_rules! pair {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let (a, b) = (float::operand(w, i, 0), float::operand(w, i, 1));
            join(w, i, &a, &b, |bits| $f(f32::from_bits(bits)));
        })
    };
}

/// Two halves to a pair of 16 bits.
macro_rules! half_pair {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let (a, b) = (half::operand(w, i, 0), half::operand(w, i, 1));
            join(w, i, &a, &b, |bits| $f(from_half(bits)));
        })
    };
}

/// Two integers to a pair of 16 bits.
macro_rules! integer_pair {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let (a, b) = (w.regs.lanes(i, 0), w.regs.lanes(i, 1));
            join(w, i, &a, &b, $f);
        })
    };
}

pub(super) const OPS: &[Op] = ops![
    Vop1 3 "v_cvt_i32_f64" => from_f64!(|a| a as i32 as u32),
    Vop1 4 "v_cvt_f64_i32" => to_f64!(|a| f64::from(a as i32)),
    Vop1 5 "v_cvt_f32_i32" => to_f32!(|a| a as i32 as f32),
    Vop1 6 "v_cvt_f32_u32" => to_f32!(|a| a as f32),
    Vop1 7 "v_cvt_u32_f32" => from_f32!(|a| a as u32),
    Vop1 8 "v_cvt_i32_f32" => from_f32!(|a| a as i32 as u32),
    Vop1 10 "v_cvt_f16_f32" => Run::Alu(f16_f32),
    Vop1 11 "v_cvt_f32_f16" => Run::Alu(f32_f16),
    Vop1 12 "v_cvt_rpi_i32_f32" => from_f32!(|a: f32| (a + 0.5).floor() as i32 as u32),
    Vop1 13 "v_cvt_flr_i32_f32" => from_f32!(|a: f32| a.floor() as i32 as u32),
    Vop1 14 "v_cvt_off_f32_i4" => to_f32!(|a: u32| ((a << 28) as i32 >> 28) as f32 / 16.0),
    Vop1 15 "v_cvt_f32_f64" => Run::Alu(f32_f64),
    Vop1 16 "v_cvt_f64_f32" => Run::Alu(f64_f32),
    Vop1 17 "v_cvt_f32_ubyte0" => to_f32!(|a| (a & 0xff) as f32),
    Vop1 18 "v_cvt_f32_ubyte1" => to_f32!(|a: u32| (a >> 8 & 0xff) as f32),
    Vop1 19 "v_cvt_f32_ubyte2" => to_f32!(|a: u32| (a >> 16 & 0xff) as f32),
    Vop1 20 "v_cvt_f32_ubyte3" => to_f32!(|a| (a >> 24) as f32),
    Vop1 21 "v_cvt_u32_f64" => from_f64!(|a| a as u32),
    Vop1 22 "v_cvt_f64_u32" => to_f64!(f64::from),
    Vop1 57 "v_cvt_f16_u16" => Run::Alu(|w, i| from_short(w, i, |a| a as f32)),
    Vop1 58 "v_cvt_f16_i16" => Run::Alu(|w, i| from_short(w, i, |a| f32::from(a as i16))),
    Vop1 59 "v_cvt_u16_f16" => Run::Alu(|w, i| to_short(w, i, |a| a as u16)),
    Vop1 60 "v_cvt_i16_f16" => Run::Alu(|w, i| to_short(w, i, |a| a as i16 as u16)),
    Vop1 77 "v_cvt_norm_i16_f16" => Run::Alu(|w, i| to_short(w, i, |a| signed_norm(a) as u16)),
    Vop1 78 "v_cvt_norm_u16_f16" => Run::Alu(|w, i| to_short(w, i, |a| unsigned_norm(a) as u16)),
    Vop1 79 "v_sat_pk_u8_i16" => super::lanes::u1!(|a| saturated_byte(a) | saturated_byte(a >> 16) << 8),
    Vop3 0x1dd "v_cvt_pk_u8_f32" => Run::Alu(pack_byte),
    Vop3 0x294 "v_cvt_pknorm_i16_f32" => pair!(signed_norm),
    Vop3 0x295 "v_cvt_pknorm_u16_f32" => pair!(unsigned_norm),
    Vop3 0x296 "v_cvt_pkrtz_f16_f32" => pair!(to_half_toward_zero),
    Vop3 0x297 "v_cvt_pk_u16_u32" => integer_pair!(|a| a.min(0xffff)),
    Vop3 0x298 "v_cvt_pk_i16_i32" => integer_pair!(|a| (a as i32).clamp(-0x8000, 0x7fff) as u32),
    Vop3 0x299 "v_cvt_pknorm_i16_f16" => half_pair!(signed_norm),
    Vop3 0x29a "v_cvt_pknorm_u16_f16" => half_pair!(unsigned_norm),
];

fn f16_f32(w: &mut Wave, i: &Inst) {
    let mut a = float::operand(w, i, 0);
    for lane in &mut a {
        *lane = to_half(f32::from_bits(*lane));
    }
    half::finish(w, i, &mut a);
}

fn f32_f16(w: &mut Wave, i: &Inst) {
    let mut a = half::operand(w, i, 0);
    for lane in &mut a {
        *lane = from_half(*lane).to_bits();
    }
    float::finish(w, i, &mut a);
}

fn f32_f64(w: &mut Wave, i: &Inst) {
    let mut value = double::operand(w, i, 0).map(|a| (a as f32).to_bits());
    float::finish(w, i, &mut value);
}

fn f64_f32(w: &mut Wave, i: &Inst) {
    let value = float::operand(w, i, 0).map(|bits| f64::from(f32::from_bits(bits)));
    double::finish(w, i, &value);
}

fn from_short(w: &mut Wave, i: &Inst, f: impl Fn(u32) -> f32) {
    let mut a = w.regs.halves(i, 0).map(|bits| to_half(f(bits)));
    half::finish(w, i, &mut a);
}

fn to_short(w: &mut Wave, i: &Inst, f: impl Fn(f32) -> u16) {
    let a = half::operand(w, i, 0).map(|bits| u32::from(f(from_half(bits))));
    w.regs.write(i, &a);
}

/// -1 to 1 as 16 bits.
fn signed_norm(value: f32) -> u32 {
    (value.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i32 as u32
}

/// 0 to 1 as 16 bits.
fn unsigned_norm(value: f32) -> u32 {
    (value.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u32
}

fn saturated_byte(value: u32) -> u32 {
    i32::from(value as i16).clamp(0, 255) as u32
}

/// A float as a byte at the place that operand 1 says, among the bytes of operand 2.
fn pack_byte(w: &mut Wave, i: &Inst) {
    let (mut a, b, c) = (float::operand(w, i, 0), w.regs.lanes(i, 1), w.regs.lanes(i, 2));
    for lane in 0..64 {
        let shift = 8 * (b[lane] & 3);
        let byte = u32::from(f32::from_bits(a[lane]) as u8);
        a[lane] = c[lane] & !(0xff << shift) | byte << shift;
    }
    w.regs.write(i, &a);
}

#[inline(always)]
fn join(w: &mut Wave, i: &Inst, a: &Lanes<u32>, b: &Lanes<u32>, f: impl Fn(u32) -> u32) {
    let mut out = [0; 64];
    for lane in 0..64 {
        out[lane] = f(a[lane]) & 0xffff | f(b[lane]) << 16;
    }
    w.regs.write(i, &out);
}
