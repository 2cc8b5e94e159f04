//! Integers of 64 bits in vector registers.

use super::lanes::ops;
use crate::isa::inst::{Inst, Op, Run};
use crate::isa::registers::Lanes;
use crate::isa::wave::Wave;

macro_rules! shift {
    ($f:expr) => {
        Run::Alu(|w, i| {
            let (a, b) = (w.regs.lanes(i, 0), w.regs.wide(i, 1));
            let mut out = [0; 64];
            for lane in 0..64 {
                out[lane] = $f(b[lane], a[lane] & 63);
            }
            w.regs.write64(i, &out);
        })
    };
}

pub(super) const OPS: &[Op] = ops![
    Vop3 0x1e8 "v_mad_u64_u32" => Run::Alu(mad_u64_u32),
    Vop3 0x1e9 "v_mad_i64_i32" => Run::Alu(mad_i64_i32),
    Vop3 0x28f "v_lshlrev_b64" => shift!(|x: u64, n| x << n),
    Vop3 0x290 "v_lshrrev_b64" => shift!(|x: u64, n| x >> n),
    Vop3 0x291 "v_ashrrev_i64" => shift!(|x: u64, n| (x as i64 >> n) as u64),
];

fn mad_u64_u32(w: &mut Wave, i: &Inst) {
    mad(w, i, |a, b, c| (u64::from(a) * u64::from(b)).overflowing_add(c));
}

fn mad_i64_i32(w: &mut Wave, i: &Inst) {
    mad(w, i, |a, b, c| {
        let sum = i128::from(a as i32) * i128::from(b as i32) + i128::from(c as i64);
        (sum as u64, sum >> 64 & 1 != 0)
    });
}

#[inline(always)]
fn mad(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32, u64) -> (u64, bool)) {
    let (a, b, c) = (w.regs.lanes(i, 0), w.regs.lanes(i, 1), w.regs.wide(i, 2));
    let mut out: Lanes<u64> = [0; 64];
    let mut carry = 0;
    for lane in 0..64 {
        let (value, over) = f(a[lane], b[lane], c[lane]);
        out[lane] = value;
        carry |= u64::from(over) << lane;
    }
    let active = w.regs.active(i);
    w.regs.write64(i, &out);
    w.regs.set_s64(i.sdst, carry & active);
}
