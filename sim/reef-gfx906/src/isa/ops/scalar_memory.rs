//! Loads to and stores from scalar registers, and clocks.

use super::lanes::ops;
use crate::isa::inst::{Inst, Op, Run, Src};
use crate::isa::space::{Bad, Env, load32, store32};
use crate::isa::wave::Wave;

const NOTHING: Run = Run::Alu(|_, _| ());

pub(super) const OPS: &[Op] = ops![
    Smem 0 "s_load_dword" => Run::Memory(|w, i, env| load(w, i, env, 1)),
    Smem 1 "s_load_dwordx2" => Run::Memory(|w, i, env| load(w, i, env, 2)),
    Smem 2 "s_load_dwordx4" => Run::Memory(|w, i, env| load(w, i, env, 4)),
    Smem 3 "s_load_dwordx8" => Run::Memory(|w, i, env| load(w, i, env, 8)),
    Smem 4 "s_load_dwordx16" => Run::Memory(|w, i, env| load(w, i, env, 16)),
    Smem 8 "s_buffer_load_dword" => Run::Memory(|w, i, env| buffer_load(w, i, env, 1)),
    Smem 9 "s_buffer_load_dwordx2" => Run::Memory(|w, i, env| buffer_load(w, i, env, 2)),
    Smem 10 "s_buffer_load_dwordx4" => Run::Memory(|w, i, env| buffer_load(w, i, env, 4)),
    Smem 11 "s_buffer_load_dwordx8" => Run::Memory(|w, i, env| buffer_load(w, i, env, 8)),
    Smem 12 "s_buffer_load_dwordx16" => Run::Memory(|w, i, env| buffer_load(w, i, env, 16)),
    Smem 16 "s_store_dword" => Run::Memory(|w, i, env| store(w, i, env, 1)),
    Smem 17 "s_store_dwordx2" => Run::Memory(|w, i, env| store(w, i, env, 2)),
    Smem 18 "s_store_dwordx4" => Run::Memory(|w, i, env| store(w, i, env, 4)),
    Smem 32 "s_dcache_inv" => NOTHING,
    Smem 33 "s_dcache_wb" => NOTHING,
    Smem 34 "s_dcache_inv_vol" => NOTHING,
    Smem 35 "s_dcache_wb_vol" => NOTHING,
    Smem 36 "s_memtime" => Run::Memory(clock),
    Smem 37 "s_memrealtime" => Run::Memory(clock),
];

fn clock(w: &mut Wave, i: &Inst, env: &mut Env<'_>) -> Result<(), Bad> {
    w.regs.set_s64(i.dst, env.memory.clock());
    Ok(())
}

/// The offset: an immediate, a register, or both.
fn offset(w: &Wave, i: &Inst) -> u64 {
    let register = match i.src[0] {
        Src::S(register) => w.regs.s[usize::from(register & 127)],
        _ => 0,
    };
    u64::from(register).wrapping_add_signed(i64::from(i.imm))
}

/// Base and offset, in whole words.
fn address(w: &Wave, i: &Inst) -> u64 {
    let base = w.regs.s64(i.mem.base.unwrap_or(0)) & !3;
    base.wrapping_add(offset(w, i) & !3)
}

fn load(w: &mut Wave, i: &Inst, env: &mut Env<'_>, words: u8) -> Result<(), Bad> {
    let at = env.host(address(w, i), 4 * usize::from(words))?;
    for k in 0..words {
        // SAFETY: `host` has checked that all words are mapped.
        let value = unsafe { load32(at.add(4 * usize::from(k))) };
        w.regs.set_s(i.dst.wrapping_add(k), value);
    }
    Ok(())
}

/// Loads from a buffer resource: words outside of it read as zero.
fn buffer_load(w: &mut Wave, i: &Inst, env: &mut Env<'_>, words: u8) -> Result<(), Bad> {
    let resource = i.mem.base.unwrap_or(0);
    let base = w.regs.s64(resource) & 0xffff_ffff_ffff;
    let size = u64::from(w.regs.s[usize::from(resource + 2) & 127]);
    let stride = w.regs.s64(resource) >> 48 & 0x3fff;
    let first = offset(w, i) & !3;
    for k in 0..words {
        let at = first.wrapping_add(4 * u64::from(k));
        let inside = at < size * stride.max(1);
        let value = if inside {
            // SAFETY: `host` has checked that the word is mapped.
            unsafe { load32(env.host(base.wrapping_add(at), 4)?) }
        } else {
            0
        };
        w.regs.set_s(i.dst.wrapping_add(k), value);
    }
    Ok(())
}

fn store(w: &mut Wave, i: &Inst, env: &mut Env<'_>, words: u8) -> Result<(), Bad> {
    let at = env.host(address(w, i), 4 * usize::from(words))?;
    for k in 0..words {
        let value = w.regs.s[usize::from(i.dst.wrapping_add(k) & 127)];
        // SAFETY: `host` has checked that all words are mapped.
        unsafe { store32(at.add(4 * usize::from(k)), value) };
    }
    Ok(())
}
