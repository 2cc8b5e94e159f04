//! Buffers (MUBUF). Compilers use them for private memory, whose resource says that each lane has
//! its own part: the runtime's words for that are not looked at, a lane's part is the wave's
//! private memory.

use super::access::Pointers;
use super::lanes::ops;
use super::transfers::{load, store};
use crate::isa::inst::{Inst, Op, Run, Src};
use crate::isa::space::{Bad, Env};
use crate::isa::wave::Wave;

const NOTHING: Run = Run::Alu(|_, _| ());

pub(super) const OPS: &[Op] = ops![
    Mubuf 16 "buffer_load_ubyte" => load!(U8),
    Mubuf 17 "buffer_load_sbyte" => load!(I8),
    Mubuf 18 "buffer_load_ushort" => load!(U16),
    Mubuf 19 "buffer_load_sshort" => load!(I16),
    Mubuf 20 "buffer_load_dword" => load!(1),
    Mubuf 21 "buffer_load_dwordx2" => load!(2),
    Mubuf 22 "buffer_load_dwordx3" => load!(3),
    Mubuf 23 "buffer_load_dwordx4" => load!(4),
    Mubuf 24 "buffer_store_byte" => store!(store_byte 1 0),
    Mubuf 25 "buffer_store_byte_d16_hi" => store!(store_byte 1 16),
    Mubuf 26 "buffer_store_short" => store!(store_half 2 0),
    Mubuf 27 "buffer_store_short_d16_hi" => store!(store_half 2 16),
    Mubuf 28 "buffer_store_dword" => store!(1),
    Mubuf 29 "buffer_store_dwordx2" => store!(2),
    Mubuf 30 "buffer_store_dwordx3" => store!(3),
    Mubuf 31 "buffer_store_dwordx4" => store!(4),
    Mubuf 32 "buffer_load_ubyte_d16" => load!(U8 0),
    Mubuf 33 "buffer_load_ubyte_d16_hi" => load!(U8 16),
    Mubuf 34 "buffer_load_sbyte_d16" => load!(I8 0),
    Mubuf 35 "buffer_load_sbyte_d16_hi" => load!(I8 16),
    Mubuf 36 "buffer_load_short_d16" => load!(U16 0),
    Mubuf 37 "buffer_load_short_d16_hi" => load!(U16 16),
    Mubuf 62 "buffer_wbinvl1" => NOTHING,
    Mubuf 63 "buffer_wbinvl1_vol" => NOTHING,
];

/// Bit of a resource's last word: lanes have parts of their own ("add thread id").
const PER_LANE: u32 = 1 << 23;

/// The first register of what is stored.
fn stored(i: &Inst) -> u8 {
    i.dst
}

fn places(w: &mut Wave, i: &Inst, env: &mut Env<'_>, bytes: usize) -> Result<Pointers, Bad> {
    let resource = i.mem.base.unwrap_or(0);
    let base = w.regs.s64(resource) & 0xffff_ffff_ffff;
    let last = w.regs.s[usize::from(resource + 3) & 127];
    let scalar = w.regs.scalar(i.src[2]);
    if base == 0 || last & PER_LANE != 0 {
        // A stack pointer counts the bytes of all 64 lanes.
        return private(w, i, bytes, u64::from(scalar) / 64);
    }
    if i.mem.idxen {
        return Err(Bad::Unsupported("an index into a buffer"));
    }
    let offsets = offsets(w, i);
    Pointers::find(w.regs.exec(), |lane| {
        let address = base.wrapping_add(u64::from(scalar)).wrapping_add(offsets[lane]);
        env.host(address, bytes)
    })
}

/// The part of the offset that lanes don't share, and the immediate.
fn offsets(w: &Wave, i: &Inst) -> [u64; 64] {
    let lanes = match (i.mem.offen, i.src[0]) {
        (true, Src::V(register)) => *w.regs.vgpr(register),
        _ => [0; 64],
    };
    lanes.map(|offset| u64::from(offset) + i.imm as u64)
}

fn private(w: &mut Wave, i: &Inst, bytes: usize, stack: u64) -> Result<Pointers, Bad> {
    let offsets = offsets(w, i);
    Pointers::find(w.regs.exec(), |lane| w.private(lane, offsets[lane] + stack, bytes))
}
