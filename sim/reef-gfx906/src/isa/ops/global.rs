//! Memory by address: the segments flat, global and scratch, which share their numbers.

use super::access::{self, Pointers, each};
use super::lanes::{dec, inc, ops};
use super::transfers::{load, store};
use crate::isa::inst::{Inst, Op, Run, Src};
use crate::isa::registers::{PRIVATE_APERTURE, SHARED_APERTURE};
use crate::isa::space::{Bad, Env};
use crate::isa::wave::Wave;

macro_rules! atomic {
    ($atomic:ident $bytes:literal $f:expr) => {
        Run::Memory(|w, i, env| {
            let at = places(w, i, env, $bytes)?;
            access::$atomic(w, i.mem.glc.then_some(i.dst), stored(i), &at, $f)
        })
    };
}

pub(super) const OPS: &[Op] = ops![
    Flat 16 "load_ubyte" => load!(U8),
    Flat 17 "load_sbyte" => load!(I8),
    Flat 18 "load_ushort" => load!(U16),
    Flat 19 "load_sshort" => load!(I16),
    Flat 20 "load_dword" => load!(1),
    Flat 21 "load_dwordx2" => load!(2),
    Flat 22 "load_dwordx3" => load!(3),
    Flat 23 "load_dwordx4" => load!(4),
    Flat 24 "store_byte" => store!(store_byte 1 0),
    Flat 25 "store_byte_d16_hi" => store!(store_byte 1 16),
    Flat 26 "store_short" => store!(store_half 2 0),
    Flat 27 "store_short_d16_hi" => store!(store_half 2 16),
    Flat 28 "store_dword" => store!(1),
    Flat 29 "store_dwordx2" => store!(2),
    Flat 30 "store_dwordx3" => store!(3),
    Flat 31 "store_dwordx4" => store!(4),
    Flat 32 "load_ubyte_d16" => load!(U8 0),
    Flat 33 "load_ubyte_d16_hi" => load!(U8 16),
    Flat 34 "load_sbyte_d16" => load!(I8 0),
    Flat 35 "load_sbyte_d16_hi" => load!(I8 16),
    Flat 36 "load_short_d16" => load!(U16 0),
    Flat 37 "load_short_d16_hi" => load!(U16 16),
    Flat 64 "atomic_swap" => atomic!(atomic32 4 |_, data| data),
    Flat 65 "atomic_cmpswap" => Run::Memory(|w, i, env| {
        let at = places(w, i, env, 4)?;
        let registers = [stored(i), stored(i).wrapping_add(1)];
        access::swap32(w, i.mem.glc.then_some(i.dst), registers, &at, |a, b| a == b)
    }),
    Flat 66 "atomic_add" => atomic!(atomic32 4 u32::wrapping_add),
    Flat 67 "atomic_sub" => atomic!(atomic32 4 u32::wrapping_sub),
    Flat 68 "atomic_smin" => atomic!(atomic32 4 |a, b| (a as i32).min(b as i32) as u32),
    Flat 69 "atomic_umin" => atomic!(atomic32 4 |a, b| a.min(b)),
    Flat 70 "atomic_smax" => atomic!(atomic32 4 |a, b| (a as i32).max(b as i32) as u32),
    Flat 71 "atomic_umax" => atomic!(atomic32 4 |a, b| a.max(b)),
    Flat 72 "atomic_and" => atomic!(atomic32 4 |a, b| a & b),
    Flat 73 "atomic_or" => atomic!(atomic32 4 |a, b| a | b),
    Flat 74 "atomic_xor" => atomic!(atomic32 4 |a, b| a ^ b),
    Flat 75 "atomic_inc" => atomic!(atomic32 4 |a, b| inc(a.into(), b.into()) as u32),
    Flat 76 "atomic_dec" => atomic!(atomic32 4 |a, b| dec(a.into(), b.into()) as u32),
    Flat 96 "atomic_swap_x2" => atomic!(atomic64 8 |_, data| data),
    Flat 97 "atomic_cmpswap_x2" => Run::Memory(|w, i, env| {
        let at = places(w, i, env, 8)?;
        let registers = [stored(i), stored(i).wrapping_add(2)];
        access::swap64(w, i.mem.glc.then_some(i.dst), registers, &at, |a, b| a == b)
    }),
    Flat 98 "atomic_add_x2" => atomic!(atomic64 8 u64::wrapping_add),
    Flat 99 "atomic_sub_x2" => atomic!(atomic64 8 u64::wrapping_sub),
    Flat 100 "atomic_smin_x2" => atomic!(atomic64 8 |a, b| (a as i64).min(b as i64) as u64),
    Flat 101 "atomic_umin_x2" => atomic!(atomic64 8 |a, b| a.min(b)),
    Flat 102 "atomic_smax_x2" => atomic!(atomic64 8 |a, b| (a as i64).max(b as i64) as u64),
    Flat 103 "atomic_umax_x2" => atomic!(atomic64 8 |a, b| a.max(b)),
    Flat 104 "atomic_and_x2" => atomic!(atomic64 8 |a, b| a & b),
    Flat 105 "atomic_or_x2" => atomic!(atomic64 8 |a, b| a | b),
    Flat 106 "atomic_xor_x2" => atomic!(atomic64 8 |a, b| a ^ b),
    Flat 107 "atomic_inc_x2" => atomic!(atomic64 8 inc),
    Flat 108 "atomic_dec_x2" => atomic!(atomic64 8 dec),
];

/// The register of what is stored.
fn stored(i: &Inst) -> u8 {
    match i.src[1] {
        Src::V(register) => register,
        _ => 0,
    }
}

/// Addresses of each active lane's bytes.
fn places(w: &mut Wave, i: &Inst, env: &mut Env<'_>, bytes: usize) -> Result<Pointers, Bad> {
    match i.mem.segment {
        1 => scratch(w, i, bytes),
        segment => {
            let addresses = addresses(w, i);
            let apertures = segment == 0 && in_apertures(&addresses, w.regs.exec());
            if apertures {
                flat(w, env, &addresses, bytes)
            } else {
                global(w, env, &addresses, bytes)
            }
        }
    }
}

/// The address of each lane: of 64 bits, or 32 bits after a scalar base.
#[inline]
fn addresses(w: &Wave, i: &Inst) -> [u64; 64] {
    let offset = i64::from(i.imm);
    let mut all = match i.mem.base {
        None => w.regs.wide(i, 0),
        Some(base) => {
            let base = w.regs.s64(base);
            let lanes = w.regs.lanes(i, 0);
            let mut all = [base; 64];
            for lane in 0..64 {
                all[lane] = base.wrapping_add(u64::from(lanes[lane]));
            }
            all
        }
    };
    for address in &mut all {
        *address = address.wrapping_add_signed(offset);
    }
    all
}

fn in_apertures(addresses: &[u64; 64], mask: u64) -> bool {
    let inside =
        |address: u64| matches!((address >> 32) as u32, SHARED_APERTURE | PRIVATE_APERTURE);
    let mut any = false;
    each(mask, |lane| any |= inside(addresses[lane]));
    any
}

/// Checks all lanes at once where one mapped range holds them.
fn global(
    w: &Wave,
    env: &mut Env<'_>,
    addresses: &[u64; 64],
    bytes: usize,
) -> Result<Pointers, Bad> {
    let mask = w.regs.exec();
    let (mut first, mut last) = (u64::MAX, 0);
    each(mask, |lane| {
        first = first.min(addresses[lane]);
        last = last.max(addresses[lane]);
    });
    if mask != 0 && env.covers(first, last, bytes) {
        return Pointers::find(mask, |lane| Ok(addresses[lane] as *mut u8));
    }
    Pointers::find(mask, |lane| env.host(addresses[lane], bytes))
}

fn flat(
    w: &mut Wave,
    env: &mut Env<'_>,
    addresses: &[u64; 64],
    bytes: usize,
) -> Result<Pointers, Bad> {
    Pointers::find(w.regs.exec(), |lane| w.flat(env, lane, addresses[lane], bytes))
}

/// Offsets into private memory, from a vector or a scalar register.
fn scratch(w: &mut Wave, i: &Inst, bytes: usize) -> Result<Pointers, Bad> {
    let offsets = match i.mem.base {
        Some(base) => [w.regs.s[usize::from(base & 127)]; 64],
        None => w.regs.lanes(i, 0),
    };
    Pointers::find(w.regs.exec(), |lane| {
        let offset = u64::from(offsets[lane]).wrapping_add_signed(i64::from(i.imm));
        w.private(lane, offset, bytes)
    })
}
