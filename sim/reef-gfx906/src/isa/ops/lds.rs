//! The workgroup's shared memory, and permutations of lanes that go through its hardware.

use super::access::{self, Pointers, each};
use super::lanes::{dec, inc, ops};
use super::transfers::{load, store};
use crate::isa::inst::{Inst, Op, Run, Src};
use crate::isa::registers::Lanes;
use crate::isa::space::{Bad, Env};
use crate::isa::wave::Wave;

/// An atomic, without the value before and with it.
macro_rules! atomic {
    ($atomic:ident $bytes:literal $f:expr) => {
        Run::Memory(|w, i, env| {
            let at = places(w, i, env, $bytes)?;
            access::$atomic(w, None, data(i, 1), &at, $f)
        })
    };
    (rtn $atomic:ident $bytes:literal $f:expr) => {
        Run::Memory(|w, i, env| {
            let at = places(w, i, env, $bytes)?;
            access::$atomic(w, Some(i.dst), data(i, 1), &at, $f)
        })
    };
}

/// Compare and store: data 0 is compared with, data 1 is stored.
macro_rules! cmpst {
    ($swap:ident $bytes:literal $dst:expr, $equal:expr) => {
        Run::Memory(|w, i, env| {
            let at = places(w, i, env, $bytes)?;
            let dst: fn(&Inst) -> Option<u8> = $dst;
            access::$swap(w, dst(i), [data(i, 2), data(i, 1)], &at, $equal)
        })
    };
}

pub(super) const OPS: &[Op] = ops![
    Ds 0 "ds_add_u32" => atomic!(atomic32 4 u32::wrapping_add),
    Ds 1 "ds_sub_u32" => atomic!(atomic32 4 u32::wrapping_sub),
    Ds 2 "ds_rsub_u32" => atomic!(atomic32 4 |a, b| b.wrapping_sub(a)),
    Ds 3 "ds_inc_u32" => atomic!(atomic32 4 |a, b| inc(a.into(), b.into()) as u32),
    Ds 4 "ds_dec_u32" => atomic!(atomic32 4 |a, b| dec(a.into(), b.into()) as u32),
    Ds 5 "ds_min_i32" => atomic!(atomic32 4 |a, b| (a as i32).min(b as i32) as u32),
    Ds 6 "ds_max_i32" => atomic!(atomic32 4 |a, b| (a as i32).max(b as i32) as u32),
    Ds 7 "ds_min_u32" => atomic!(atomic32 4 |a, b| a.min(b)),
    Ds 8 "ds_max_u32" => atomic!(atomic32 4 |a, b| a.max(b)),
    Ds 9 "ds_and_b32" => atomic!(atomic32 4 |a, b| a & b),
    Ds 10 "ds_or_b32" => atomic!(atomic32 4 |a, b| a | b),
    Ds 11 "ds_xor_b32" => atomic!(atomic32 4 |a, b| a ^ b),
    Ds 13 "ds_write_b32" => store!(1),
    Ds 14 "ds_write2_b32" => Run::Memory(|w, i, env| write2(w, i, env, 1, 1)),
    Ds 15 "ds_write2st64_b32" => Run::Memory(|w, i, env| write2(w, i, env, 1, 64)),
    Ds 16 "ds_cmpst_b32" => cmpst!(swap32 4 |_| None, |a, b| a == b),
    Ds 17 "ds_cmpst_f32" => cmpst!(swap32 4 |_| None, |a, b| f32::from_bits(a) == f32::from_bits(b)),
    Ds 18 "ds_min_f32" => atomic!(atomic32 4 |a, b| float32(a, b, |a, b| if b < a { b } else { a })),
    Ds 19 "ds_max_f32" => atomic!(atomic32 4 |a, b| float32(a, b, |a, b| if b > a { b } else { a })),
    Ds 20 "ds_nop" => Run::Alu(|_, _| ()),
    Ds 21 "ds_add_f32" => atomic!(atomic32 4 |a, b| float32(a, b, |a, b| a + b)),
    Ds 30 "ds_write_b8" => store!(store_byte 1 0),
    Ds 31 "ds_write_b16" => store!(store_half 2 0),
    Ds 32 "ds_add_rtn_u32" => atomic!(rtn atomic32 4 u32::wrapping_add),
    Ds 33 "ds_sub_rtn_u32" => atomic!(rtn atomic32 4 u32::wrapping_sub),
    Ds 34 "ds_rsub_rtn_u32" => atomic!(rtn atomic32 4 |a, b| b.wrapping_sub(a)),
    Ds 35 "ds_inc_rtn_u32" => atomic!(rtn atomic32 4 |a, b| inc(a.into(), b.into()) as u32),
    Ds 36 "ds_dec_rtn_u32" => atomic!(rtn atomic32 4 |a, b| dec(a.into(), b.into()) as u32),
    Ds 37 "ds_min_rtn_i32" => atomic!(rtn atomic32 4 |a, b| (a as i32).min(b as i32) as u32),
    Ds 38 "ds_max_rtn_i32" => atomic!(rtn atomic32 4 |a, b| (a as i32).max(b as i32) as u32),
    Ds 39 "ds_min_rtn_u32" => atomic!(rtn atomic32 4 |a, b| a.min(b)),
    Ds 40 "ds_max_rtn_u32" => atomic!(rtn atomic32 4 |a, b| a.max(b)),
    Ds 41 "ds_and_rtn_b32" => atomic!(rtn atomic32 4 |a, b| a & b),
    Ds 42 "ds_or_rtn_b32" => atomic!(rtn atomic32 4 |a, b| a | b),
    Ds 43 "ds_xor_rtn_b32" => atomic!(rtn atomic32 4 |a, b| a ^ b),
    Ds 45 "ds_wrxchg_rtn_b32" => atomic!(rtn atomic32 4 |_, data| data),
    Ds 48 "ds_cmpst_rtn_b32" => cmpst!(swap32 4 |i| Some(i.dst), |a, b| a == b),
    Ds 49 "ds_cmpst_rtn_f32" => cmpst!(swap32 4 |i| Some(i.dst), |a, b| f32::from_bits(a) == f32::from_bits(b)),
    Ds 50 "ds_min_rtn_f32" => atomic!(rtn atomic32 4 |a, b| float32(a, b, |a, b| if b < a { b } else { a })),
    Ds 51 "ds_max_rtn_f32" => atomic!(rtn atomic32 4 |a, b| float32(a, b, |a, b| if b > a { b } else { a })),
    Ds 53 "ds_add_rtn_f32" => atomic!(rtn atomic32 4 |a, b| float32(a, b, |a, b| a + b)),
    Ds 54 "ds_read_b32" => load!(1),
    Ds 55 "ds_read2_b32" => Run::Memory(|w, i, env| read2(w, i, env, 1, 1)),
    Ds 56 "ds_read2st64_b32" => Run::Memory(|w, i, env| read2(w, i, env, 1, 64)),
    Ds 57 "ds_read_i8" => load!(I8),
    Ds 58 "ds_read_u8" => load!(U8),
    Ds 59 "ds_read_i16" => load!(I16),
    Ds 60 "ds_read_u16" => load!(U16),
    Ds 61 "ds_swizzle_b32" => Run::Memory(swizzle),
    Ds 62 "ds_permute_b32" => Run::Alu(permute),
    Ds 63 "ds_bpermute_b32" => Run::Alu(bpermute),
    Ds 64 "ds_add_u64" => atomic!(atomic64 8 u64::wrapping_add),
    Ds 65 "ds_sub_u64" => atomic!(atomic64 8 u64::wrapping_sub),
    Ds 66 "ds_rsub_u64" => atomic!(atomic64 8 |a, b| b.wrapping_sub(a)),
    Ds 67 "ds_inc_u64" => atomic!(atomic64 8 inc),
    Ds 68 "ds_dec_u64" => atomic!(atomic64 8 dec),
    Ds 69 "ds_min_i64" => atomic!(atomic64 8 |a, b| (a as i64).min(b as i64) as u64),
    Ds 70 "ds_max_i64" => atomic!(atomic64 8 |a, b| (a as i64).max(b as i64) as u64),
    Ds 71 "ds_min_u64" => atomic!(atomic64 8 |a, b| a.min(b)),
    Ds 72 "ds_max_u64" => atomic!(atomic64 8 |a, b| a.max(b)),
    Ds 73 "ds_and_b64" => atomic!(atomic64 8 |a, b| a & b),
    Ds 74 "ds_or_b64" => atomic!(atomic64 8 |a, b| a | b),
    Ds 75 "ds_xor_b64" => atomic!(atomic64 8 |a, b| a ^ b),
    Ds 77 "ds_write_b64" => store!(2),
    Ds 78 "ds_write2_b64" => Run::Memory(|w, i, env| write2(w, i, env, 2, 1)),
    Ds 79 "ds_write2st64_b64" => Run::Memory(|w, i, env| write2(w, i, env, 2, 64)),
    Ds 80 "ds_cmpst_b64" => cmpst!(swap64 8 |_| None, |a, b| a == b),
    Ds 81 "ds_cmpst_f64" => cmpst!(swap64 8 |_| None, |a, b| f64::from_bits(a) == f64::from_bits(b)),
    Ds 82 "ds_min_f64" => atomic!(atomic64 8 |a, b| float64(a, b, |a, b| if b < a { b } else { a })),
    Ds 83 "ds_max_f64" => atomic!(atomic64 8 |a, b| float64(a, b, |a, b| if b > a { b } else { a })),
    Ds 84 "ds_write_b8_d16_hi" => store!(store_byte 1 16),
    Ds 85 "ds_write_b16_d16_hi" => store!(store_half 2 16),
    Ds 86 "ds_read_u8_d16" => load!(U8 0),
    Ds 87 "ds_read_u8_d16_hi" => load!(U8 16),
    Ds 88 "ds_read_i8_d16" => load!(I8 0),
    Ds 89 "ds_read_i8_d16_hi" => load!(I8 16),
    Ds 90 "ds_read_u16_d16" => load!(U16 0),
    Ds 91 "ds_read_u16_d16_hi" => load!(U16 16),
    Ds 96 "ds_add_rtn_u64" => atomic!(rtn atomic64 8 u64::wrapping_add),
    Ds 97 "ds_sub_rtn_u64" => atomic!(rtn atomic64 8 u64::wrapping_sub),
    Ds 98 "ds_rsub_rtn_u64" => atomic!(rtn atomic64 8 |a, b| b.wrapping_sub(a)),
    Ds 99 "ds_inc_rtn_u64" => atomic!(rtn atomic64 8 inc),
    Ds 100 "ds_dec_rtn_u64" => atomic!(rtn atomic64 8 dec),
    Ds 101 "ds_min_rtn_i64" => atomic!(rtn atomic64 8 |a, b| (a as i64).min(b as i64) as u64),
    Ds 102 "ds_max_rtn_i64" => atomic!(rtn atomic64 8 |a, b| (a as i64).max(b as i64) as u64),
    Ds 103 "ds_min_rtn_u64" => atomic!(rtn atomic64 8 |a, b| a.min(b)),
    Ds 104 "ds_max_rtn_u64" => atomic!(rtn atomic64 8 |a, b| a.max(b)),
    Ds 105 "ds_and_rtn_b64" => atomic!(rtn atomic64 8 |a, b| a & b),
    Ds 106 "ds_or_rtn_b64" => atomic!(rtn atomic64 8 |a, b| a | b),
    Ds 107 "ds_xor_rtn_b64" => atomic!(rtn atomic64 8 |a, b| a ^ b),
    Ds 109 "ds_wrxchg_rtn_b64" => atomic!(rtn atomic64 8 |_, data| data),
    Ds 112 "ds_cmpst_rtn_b64" => cmpst!(swap64 8 |i| Some(i.dst), |a, b| a == b),
    Ds 113 "ds_cmpst_rtn_f64" => cmpst!(swap64 8 |i| Some(i.dst), |a, b| f64::from_bits(a) == f64::from_bits(b)),
    Ds 114 "ds_min_rtn_f64" => atomic!(rtn atomic64 8 |a, b| float64(a, b, |a, b| if b < a { b } else { a })),
    Ds 115 "ds_max_rtn_f64" => atomic!(rtn atomic64 8 |a, b| float64(a, b, |a, b| if b > a { b } else { a })),
    Ds 118 "ds_read_b64" => load!(2),
    Ds 119 "ds_read2_b64" => Run::Memory(|w, i, env| read2(w, i, env, 2, 1)),
    Ds 120 "ds_read2st64_b64" => Run::Memory(|w, i, env| read2(w, i, env, 2, 64)),
    Ds 222 "ds_write_b96" => store!(3),
    Ds 223 "ds_write_b128" => store!(4),
    Ds 254 "ds_read_b96" => load!(3),
    Ds 255 "ds_read_b128" => load!(4),
];

/// The register of data 0 or 1.
fn data(i: &Inst, k: usize) -> u8 {
    match i.src[k] {
        Src::V(register) => register,
        _ => 0,
    }
}

/// The register of data 0, which is what is stored.
fn stored(i: &Inst) -> u8 {
    data(i, 1)
}

fn float32(a: u32, b: u32, f: impl Fn(f32, f32) -> f32) -> u32 {
    f(f32::from_bits(a), f32::from_bits(b)).to_bits()
}

fn float64(a: u64, b: u64, f: impl Fn(f64, f64) -> f64) -> u64 {
    f(f64::from_bits(a), f64::from_bits(b)).to_bits()
}

fn places(w: &mut Wave, i: &Inst, env: &mut Env<'_>, bytes: usize) -> Result<Pointers, Bad> {
    places_at(w, i, env, i.imm as u32, bytes)
}

#[inline]
fn places_at(
    w: &Wave,
    i: &Inst,
    env: &mut Env<'_>,
    offset: u32,
    bytes: usize,
) -> Result<Pointers, Bad> {
    let base = w.regs.lanes(i, 0);
    let address = |lane: usize| u64::from(base[lane].wrapping_add(offset));
    Pointers::find(w.regs.exec(), |lane| env.shared(address(lane), bytes))
}

/// The places of both values of an instruction with two offsets, in values times `stride`.
fn two(
    w: &Wave,
    i: &Inst,
    env: &mut Env<'_>,
    words: u8,
    stride: u32,
) -> Result<[Pointers; 2], Bad> {
    let bytes = 4 * u32::from(words);
    let offset = |k: u32| (i.imm as u32 >> (8 * k) & 0xff) * stride * bytes;
    let first = places_at(w, i, env, offset(0), bytes as usize)?;
    Ok([first, places_at(w, i, env, offset(1), bytes as usize)?])
}

fn read2(w: &mut Wave, i: &Inst, env: &mut Env<'_>, words: u8, stride: u32) -> Result<(), Bad> {
    let [first, second] = two(w, i, env, words, stride)?;
    access::load_words(w, i.dst, words, &first);
    access::load_words(w, i.dst.wrapping_add(words), words, &second);
    Ok(())
}

fn write2(w: &mut Wave, i: &Inst, env: &mut Env<'_>, words: u8, stride: u32) -> Result<(), Bad> {
    let [first, second] = two(w, i, env, words, stride)?;
    access::store_words(w, data(i, 1), words, &first);
    access::store_words(w, data(i, 2), words, &second);
    Ok(())
}

/// The lane that each lane's byte address names.
fn named(w: &Wave, i: &Inst) -> Lanes<usize> {
    let lanes = w.regs.lanes(i, 0);
    lanes.map(|at| (at.wrapping_add(i.imm as u32) / 4 % 64) as usize)
}

/// Each lane reads from the lane that it names; an inactive one gives zero.
fn bpermute(w: &mut Wave, i: &Inst) {
    let (from, exec) = (named(w, i), w.regs.exec());
    let value = w.regs.lanes(i, 1);
    let read = |lane: usize| if exec >> lane & 1 != 0 { value[lane] } else { 0 };
    let out = from.map(read);
    w.regs.put(i.dst, &out, exec);
}

/// Each lane sends to the lane that it names; of several the highest one wins.
fn permute(w: &mut Wave, i: &Inst) {
    let (to, exec) = (named(w, i), w.regs.exec());
    let value = w.regs.lanes(i, 1);
    let mut out = [0; 64];
    each(exec, |lane| out[to[lane]] = value[lane]);
    w.regs.put(i.dst, &out, exec);
}

/// A fixed permutation: of four lanes, by masks on the lane's number among 32, or a rotation.
fn swizzle(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<(), Bad> {
    let pattern = i.imm as usize;
    let (exec, value) = (w.regs.exec(), w.regs.lanes(i, 0));
    let source = |lane: usize| match pattern >> 13 {
        0..=3 => {
            let mixed = (lane & 31 & pattern | pattern >> 5 & 31) ^ (pattern >> 10 & 31);
            lane & 32 | mixed & 31
        }
        4 => lane & !3 | pattern >> (2 * (lane & 3)) & 3,
        _ => {
            let (keep, by) = (pattern & 31, pattern >> 5 & 31);
            let by = if pattern >> 10 & 1 != 0 { 32 - by } else { by };
            lane & 32 | lane & keep | (lane + by) & !keep & 31
        }
    };
    if matches!(pattern >> 13, 5 | 7) {
        return Err(Bad::Unsupported("this pattern of ds_swizzle"));
    }
    let read = |lane: usize| if exec >> lane & 1 != 0 { value[lane] } else { 0 };
    let out = std::array::from_fn(|lane| read(source(lane)));
    w.regs.put(i.dst, &out, exec);
    Ok(())
}
