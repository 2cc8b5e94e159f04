//! Common parts of operations.
//!
//! The macros make a line's operation into a loop over lanes. `u1` to `u3` work on 32 bits, `f` on
//! floats, `h` on halves, `d` on doubles, `w` on 64-bit integers; the number is how many operands
//! are read.

use crate::isa::inst::Inst;
use crate::isa::registers::Lanes;
use crate::isa::wave::Wave;

/// `Format number "name" => operation,` for each line.
macro_rules! ops {
    ($($format:ident $code:literal $name:expr => $run:expr,)*) => {
        &[$(crate::isa::inst::Op {
            format: crate::isa::inst::Format::$format,
            code: $code,
            name: $name,
            run: $run,
        },)*]
    };
}

macro_rules! u1 {
    ($f:expr) => {
        crate::isa::inst::Run::Alu(|w, i| crate::isa::ops::lanes::unary(w, i, $f))
    };
}

macro_rules! u2 {
    ($f:expr) => {
        crate::isa::inst::Run::Alu(|w, i| crate::isa::ops::lanes::binary(w, i, $f))
    };
}

macro_rules! u3 {
    ($f:expr) => {
        crate::isa::inst::Run::Alu(|w, i| crate::isa::ops::lanes::ternary(w, i, $f))
    };
}

pub(super) use {ops, u1, u2, u3};

#[inline(always)]
pub(super) fn unary(w: &mut Wave, i: &Inst, f: impl Fn(u32) -> u32) {
    let mut a = w.regs.lanes(i, 0);
    for lane in &mut a {
        *lane = f(*lane);
    }
    w.regs.write(i, &a);
}

#[inline(always)]
pub(super) fn binary(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32) -> u32) {
    let (mut a, b) = (w.regs.lanes(i, 0), w.regs.lanes(i, 1));
    for lane in 0..64 {
        a[lane] = f(a[lane], b[lane]);
    }
    w.regs.write(i, &a);
}

#[inline(always)]
pub(super) fn ternary(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32, u32) -> u32) {
    let (mut a, b, c) = (w.regs.lanes(i, 0), w.regs.lanes(i, 1), w.regs.lanes(i, 2));
    for lane in 0..64 {
        a[lane] = f(a[lane], b[lane], c[lane]);
    }
    w.regs.write(i, &a);
}

/// Applies `abs` and `neg` of operand `k`, at the bit that is the sign.
#[inline(always)]
pub(super) fn modify(i: &Inst, k: usize, lanes: &mut Lanes<u32>, sign: u32) {
    if i.abs >> k & 1 != 0 {
        lanes.iter_mut().for_each(|lane| *lane &= !sign);
    }
    if i.neg >> k & 1 != 0 {
        lanes.iter_mut().for_each(|lane| *lane ^= sign);
    }
}

/// Counts up to a limit and starts again (`atomic_inc`).
pub(super) fn inc(value: u64, limit: u64) -> u64 {
    if value >= limit { 0 } else { value + 1 }
}

/// Counts down and starts again at a limit (`atomic_dec`).
pub(super) fn dec(value: u64, limit: u64) -> u64 {
    if value == 0 || value > limit { limit } else { value - 1 }
}
