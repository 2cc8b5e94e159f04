//! Comparisons: a bit for each active lane. `v_cmpx` also makes them the active lanes.

use super::{double, float, half};
use crate::isa::float::from_half;
use crate::isa::inst::{Format, Inst, Op, Run};
use crate::isa::registers::{EXEC, Lanes};
use crate::isa::wave::Wave;

/// A type's tests, each as `v_cmp` and as `v_cmpx`, at the first number of either and on.
macro_rules! family {
    ($type:literal $first:literal $firstx:literal $read:ident: $($n:literal $test:literal $f:expr,)*) => {
        &[$(
            Op {
                format: Format::Vopc,
                code: $first + $n,
                name: concat!("v_cmp_", $test, "_", $type),
                run: Run::Alu(|w, i| {
                    let mask = $read(w, i, $f);
                    set(w, i, mask);
                }),
            },
            Op {
                format: Format::Vopc,
                code: $firstx + $n,
                name: concat!("v_cmpx_", $test, "_", $type),
                run: Run::Alu(|w, i| {
                    let mask = $read(w, i, $f);
                    set_exec(w, i, mask);
                }),
            },
        )*]
    };
}

macro_rules! integers {
    ($type:literal $first:literal $firstx:literal $read:ident) => {
        family!($type $first $firstx $read:
            0 "f" |_, _| false,
            1 "lt" |a, b| a < b,
            2 "eq" |a, b| a == b,
            3 "le" |a, b| a <= b,
            4 "gt" |a, b| a > b,
            5 "ne" |a, b| a != b,
            6 "ge" |a, b| a >= b,
            7 "t" |_, _| true,
        )
    };
}

/// "n" tests are true for NaN, the others are not.
macro_rules! floats {
    ($type:literal $first:literal $firstx:literal $read:ident) => {
        family!($type $first $firstx $read:
            0 "f" |_, _| false,
            1 "lt" |a, b| a < b,
            2 "eq" |a, b| a == b,
            3 "le" |a, b| a <= b,
            4 "gt" |a, b| a > b,
            5 "lg" |a, b| a != b && !a.is_nan() && !b.is_nan(),
            6 "ge" |a, b| a >= b,
            7 "o" |a, b| !a.is_nan() && !b.is_nan(),
            8 "u" |a, b| a.is_nan() || b.is_nan(),
            9 "nge" |a, b| a < b || a.is_nan() || b.is_nan(),
            10 "nlg" |a, b| a == b || a.is_nan() || b.is_nan(),
            11 "ngt" |a, b| a <= b || a.is_nan() || b.is_nan(),
            12 "nle" |a, b| a > b || a.is_nan() || b.is_nan(),
            13 "neq" |a, b| a != b,
            14 "nlt" |a, b| a >= b || a.is_nan() || b.is_nan(),
            15 "tru" |_, _| true,
        )
    };
}

pub(super) const TABLES: [&[Op]; 12] = [
    integers!("u16" 0xa8 0xb8 u16s),
    integers!("i16" 0xa0 0xb0 i16s),
    integers!("u32" 0xc8 0xd8 u32s),
    integers!("i32" 0xc0 0xd0 i32s),
    integers!("u64" 0xe8 0xf8 u64s),
    integers!("i64" 0xe0 0xf0 i64s),
    floats!("f16" 0x20 0x30 f16s),
    floats!("f32" 0x40 0x50 f32s),
    floats!("f64" 0x60 0x70 f64s),
    family!("f16" 0x14 0x15 f16_bits: 0 "class" |a, b| b >> class(a, 10, 5) & 1 != 0,),
    family!("f32" 0x10 0x11 f32_bits: 0 "class" |a, b| b >> class(a, 23, 8) & 1 != 0,),
    family!("f64" 0x12 0x13 f64_bits: 0 "class" |a, b| b >> class(a, 52, 11) & 1 != 0,),
];

fn set(w: &mut Wave, i: &Inst, mask: u64) {
    let active = w.regs.active(i);
    w.regs.set_s64(i.sdst, mask & active);
}

fn set_exec(w: &mut Wave, i: &Inst, mask: u64) {
    let mask = mask & w.regs.active(i);
    w.regs.set_s64(i.sdst, mask);
    w.regs.set_s64(EXEC, mask);
}

/// The bit of each lane, from a test of two arrays.
#[inline(always)]
fn test<A: Copy, B: Copy>(a: &Lanes<A>, b: &Lanes<B>, f: impl Fn(A, B) -> bool) -> u64 {
    let mut mask = 0;
    for lane in 0..64 {
        mask |= u64::from(f(a[lane], b[lane])) << lane;
    }
    mask
}

#[inline(always)]
fn u32s(w: &Wave, i: &Inst, f: impl Fn(u32, u32) -> bool) -> u64 {
    test(&w.regs.lanes(i, 0), &w.regs.lanes(i, 1), f)
}

#[inline(always)]
fn i32s(w: &Wave, i: &Inst, f: impl Fn(i32, i32) -> bool) -> u64 {
    u32s(w, i, |a, b| f(a as i32, b as i32))
}

#[inline(always)]
fn u16s(w: &Wave, i: &Inst, f: impl Fn(u16, u16) -> bool) -> u64 {
    u32s(w, i, |a, b| f(a as u16, b as u16))
}

#[inline(always)]
fn i16s(w: &Wave, i: &Inst, f: impl Fn(i16, i16) -> bool) -> u64 {
    u32s(w, i, |a, b| f(a as i16, b as i16))
}

#[inline(always)]
fn u64s(w: &Wave, i: &Inst, f: impl Fn(u64, u64) -> bool) -> u64 {
    test(&w.regs.wide(i, 0), &w.regs.wide(i, 1), f)
}

#[inline(always)]
fn i64s(w: &Wave, i: &Inst, f: impl Fn(i64, i64) -> bool) -> u64 {
    u64s(w, i, |a, b| f(a as i64, b as i64))
}

#[inline(always)]
fn f32s(w: &Wave, i: &Inst, f: impl Fn(f32, f32) -> bool) -> u64 {
    let (a, b) = (float::operand(w, i, 0), float::operand(w, i, 1));
    test(&a, &b, |a, b| f(f32::from_bits(a), f32::from_bits(b)))
}

#[inline(always)]
fn f16s(w: &Wave, i: &Inst, f: impl Fn(f32, f32) -> bool) -> u64 {
    let (a, b) = (half::operand(w, i, 0), half::operand(w, i, 1));
    test(&a, &b, |a, b| f(from_half(a), from_half(b)))
}

#[inline(always)]
fn f64s(w: &Wave, i: &Inst, f: impl Fn(f64, f64) -> bool) -> u64 {
    test(&double::operand(w, i, 0), &double::operand(w, i, 1), f)
}

fn f32_bits(w: &Wave, i: &Inst, f: impl Fn(u64, u32) -> bool) -> u64 {
    let f = |a, b| f(u64::from(a), b);
    test(&float::operand(w, i, 0), &w.regs.lanes(i, 1), f)
}

fn f16_bits(w: &Wave, i: &Inst, f: impl Fn(u64, u32) -> bool) -> u64 {
    let f = |a, b| f(u64::from(a), b);
    test(&half::operand(w, i, 0), &w.regs.lanes(i, 1), f)
}

fn f64_bits(w: &Wave, i: &Inst, f: impl Fn(u64, u32) -> bool) -> u64 {
    let f = |a: f64, b| f(a.to_bits(), b);
    test(&double::operand(w, i, 0), &w.regs.lanes(i, 1), f)
}

/// The bit that stands for a float's class, from its bits and the widths of its parts.
fn class(bits: u64, mantissa: u32, exponent: u32) -> u32 {
    let fraction = bits & ((1 << mantissa) - 1);
    let power = bits >> mantissa & ((1 << exponent) - 1);
    let negative = bits >> (mantissa + exponent) & 1 != 0;
    let class = |minus, plus| if negative { minus } else { plus };
    if power == (1 << exponent) - 1 {
        match fraction {
            0 => class(2, 9),
            _ => (fraction >> (mantissa - 1)) as u32,
        }
    } else if power != 0 {
        class(3, 8)
    } else if fraction != 0 {
        class(4, 7)
    } else {
        class(5, 6)
    }
}
