//! Branches, barriers, and what a wave says about itself.

use super::lanes::ops;
use crate::isa::inst::{Inst, Op, Run};
use crate::isa::registers::M0;
use crate::isa::space::{Bad, Env};
use crate::isa::wave::{Pause, Wave};

/// Does nothing here: caches, priorities and counters aren't simulated.
const NOTHING: Run = Run::Alu(|_, _| ());

macro_rules! branch {
    ($f:expr) => {
        Run::Flow(|w, i| {
            let test: fn(&Wave) -> bool = $f;
            if test(w) {
                jump(w, i);
            }
            None
        })
    };
}

pub(super) const OPS: &[Op] = ops![
    Sopp 0 "s_nop" => NOTHING,
    Sopp 1 "s_endpgm" => Run::Flow(|_, _| Some(Pause::Ended)),
    Sopp 2 "s_branch" => branch!(|_| true),
    Sopp 3 "s_wakeup" => NOTHING,
    Sopp 4 "s_cbranch_scc0" => branch!(|w| !w.regs.scc),
    Sopp 5 "s_cbranch_scc1" => branch!(|w| w.regs.scc),
    Sopp 6 "s_cbranch_vccz" => branch!(|w| w.regs.vcc() == 0),
    Sopp 7 "s_cbranch_vccnz" => branch!(|w| w.regs.vcc() != 0),
    Sopp 8 "s_cbranch_execz" => branch!(|w| w.regs.exec() == 0),
    Sopp 9 "s_cbranch_execnz" => branch!(|w| w.regs.exec() != 0),
    Sopp 10 "s_barrier" => Run::Flow(|_, _| Some(Pause::Barrier)),
    Sopp 12 "s_waitcnt" => NOTHING,
    Sopp 14 "s_sleep" => Run::Flow(|_, _| Some(Pause::Sleep)),
    Sopp 15 "s_setprio" => NOTHING,
    Sopp 18 "s_trap" => Run::Memory(|_, _, _| Err(Bad::Unsupported("a trap handler"))),
    Sopp 19 "s_icache_inv" => NOTHING,
    Sopp 20 "s_incperflevel" => NOTHING,
    Sopp 21 "s_decperflevel" => NOTHING,
    Sopp 22 "s_ttracedata" => NOTHING,
    Sopp 28 "s_set_gpr_idx_off" => Run::Alu(|w, _| w.regs.indexing = false),
    Sopp 29 "s_set_gpr_idx_mode" => Run::Alu(|w, i| set_index_mode(w, i.imm as u32)),
    Sop1 28 "s_getpc_b64" => Run::Alu(|w, i| w.regs.set_s64(i.dst, w.pc)),
    Sop1 29 "s_setpc_b64" => Run::Flow(|w, i| go(w, w.regs.scalar64(i.src[0]))),
    Sop1 30 "s_swappc_b64" => Run::Flow(|w, i| {
        let target = w.regs.scalar64(i.src[0]);
        w.regs.set_s64(i.dst, w.pc);
        go(w, target)
    }),
    Sop1 50 "s_set_gpr_idx_idx" => Run::Alu(|w, i| {
        let index = w.regs.scalar(i.src[0]);
        set_index(w, index);
    }),
    Sopc 17 "s_set_gpr_idx_on" => Run::Alu(|w, i| {
        let index = w.regs.scalar(i.src[0]);
        w.regs.indexing = true;
        set_index(w, index);
        set_index_mode(w, i.imm as u32);
    }),
    Sopk 17 "s_getreg_b32" => Run::Memory(getreg),
    Sopk 18 "s_setreg_b32" => Run::Memory(|w, i, _| {
        // The register to read stands where others have their result.
        setreg(w, i, w.regs.s[usize::from(i.dst & 127)])
    }),
    Sopk 20 "s_setreg_imm32_b32" => Run::Memory(|w, i, _| setreg(w, i, w.regs.scalar(i.src[0]))),
    Sopk 21 "s_call_b64" => Run::Flow(|w, i| {
        w.regs.set_s64(i.dst, w.pc);
        jump(w, i);
        None
    }),
];

/// Jumps by the immediate, in words from the next instruction.
fn jump(w: &mut Wave, i: &Inst) {
    w.pc = w.pc.wrapping_add_signed(i64::from(i.imm) * 4);
}

fn go(w: &mut Wave, pc: u64) -> Option<Pause> {
    w.pc = pc;
    None
}

fn set_index(w: &mut Wave, index: u32) {
    let m0 = &mut w.regs.s[usize::from(M0)];
    *m0 = *m0 & !0xff | index & 0xff;
}

fn set_index_mode(w: &mut Wave, mode: u32) {
    let m0 = &mut w.regs.s[usize::from(M0)];
    *m0 = *m0 & !0xf000 | (mode & 15) << 12;
}

const MODE: u32 = 1;
const SH_MEM_BASES: u32 = 15;

/// Number, first bit and mask of a hardware register's field.
fn field(i: &Inst) -> (u32, u32, u32) {
    let bits = i.imm as u32;
    (bits & 63, bits >> 6 & 31, u32::MAX >> (31 - (bits >> 11 & 31)))
}

fn getreg(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<(), Bad> {
    let (register, first, mask) = field(i);
    let value = match register {
        MODE => w.regs.mode,
        // Upper halves of the apertures: private below, shared above.
        SH_MEM_BASES => 0x4000_5000,
        // Status, traps and places in the chip.
        2..=7 | 20 => 0,
        _ => return Err(Bad::Unsupported("this hardware register")),
    };
    w.regs.set_s(i.dst, value >> first & mask);
    Ok(())
}

fn setreg(w: &mut Wave, i: &Inst, value: u32) -> Result<(), Bad> {
    let (register, first, mask) = field(i);
    if register != MODE {
        return Err(Bad::Unsupported("writing this hardware register"));
    }
    let mode = w.regs.mode & !(mask << first) | (value & mask) << first;
    if mode & 15 != 0 {
        return Err(Bad::Unsupported("another rounding than to nearest"));
    }
    w.regs.mode = mode;
    Ok(())
}
