//! Between lanes, and between lanes and scalar registers.

use super::lanes::ops;
use crate::isa::inst::{Inst, Op, Run, Src};
use crate::isa::wave::Wave;

pub(super) const OPS: &[Op] = ops![
    Vop1 2 "v_readfirstlane_b32" => Run::Alu(|w, i| {
        let value = w.regs.scalar(i.src[0]);
        w.regs.set_s(i.dst, value);
    }),
    Vop1 81 "v_swap_b32" => Run::Alu(swap),
    Vop2 0 "v_cndmask_b32" => Run::Alu(cndmask),
    Vop3 0x289 "v_readlane_b32" => Run::Alu(readlane),
    Vop3 0x28a "v_writelane_b32" => Run::Alu(writelane),
    Vop3 0x28c "v_mbcnt_lo_u32_b32" => Run::Alu(|w, i| count(w, i, 0)),
    Vop3 0x28d "v_mbcnt_hi_u32_b32" => Run::Alu(|w, i| count(w, i, 32)),
];

fn swap(w: &mut Wave, i: &Inst) {
    let Src::V(other) = i.src[0] else { return };
    let (a, b) = (*w.regs.vgpr(other), *w.regs.vgpr(i.dst));
    let active = w.regs.active(i);
    w.regs.put(i.dst, &a, active);
    w.regs.put(other, &b, active);
}

fn cndmask(w: &mut Wave, i: &Inst) {
    let (mut a, b) = (super::float::operand(w, i, 0), super::float::operand(w, i, 1));
    let mask = w.regs.scalar64(i.src[2]);
    let halves = [mask as u32, (mask >> 32) as u32];
    for lane in 0..64 {
        let second = halves[lane / 32] >> (lane % 32) & 1 != 0;
        a[lane] = if second { b[lane] } else { a[lane] };
    }
    w.regs.write(i, &a);
}

fn readlane(w: &mut Wave, i: &Inst) {
    let lane = (w.regs.scalar(i.src[1]) & 63) as usize;
    let value = match i.src[0] {
        Src::V(register) => w.regs.vgpr(register)[lane],
        src => w.regs.scalar(src),
    };
    w.regs.set_s(i.dst, value);
}

fn writelane(w: &mut Wave, i: &Inst) {
    let (value, lane) = (w.regs.scalar(i.src[0]), w.regs.scalar(i.src[1]) & 63);
    w.regs.put(i.dst, &[value; 64], 1 << lane);
}

/// Counts those of the 32 lanes from `first` on that are below this one and in the mask; adds
/// operand 1.
fn count(w: &mut Wave, i: &Inst, first: usize) {
    let (mut a, b) = (w.regs.lanes(i, 0), w.regs.lanes(i, 1));
    for lane in 0..64 {
        let below = ((1u64 << lane) - 1) >> first;
        a[lane] = (a[lane] & below as u32).count_ones().wrapping_add(b[lane]);
    }
    w.regs.write(i, &a);
}
