//! Vector encodings: VOP1, VOP2 and VOPC with their selections, VOP3 and VOP3P.

use super::words::{Decoded, Undecodable, Words, blank, lookup};
use crate::isa::inst::{Dpp, Format, Inst, Op, Sdwa, Select, Src};

/// VOP1, VOP2 and VOPC, which share the selections of their operands.
pub(super) fn vector(words: &mut Words) -> Decoded {
    let op = match words.first >> 25 {
        0b0111111 => lookup(Format::Vop1, words.bits(9, 8))?,
        0b0111110 => lookup(Format::Vopc, words.bits(17, 8))?,
        _ => lookup(Format::Vop2, words.bits(25, 6))?,
    };
    let mut inst = blank(op);
    inst.dst = words.bits(17, 8) as u8;
    if op.format != Format::Vop1 {
        inst.src[1] = Src::V(words.bits(9, 8) as u8);
    }
    match words.bits(0, 9) {
        249 => sdwa(words, &mut inst)?,
        250 => dpp(words, &mut inst)?,
        code => inst.src[0] = words.src(op, code)?,
    }
    if matches!(op.name, "v_madmk_f32" | "v_madak_f32" | "v_madmk_f16" | "v_madak_f16") {
        inst.imm = words.second()? as i32;
    }
    Ok(inst)
}

fn sdwa(words: &mut Words, inst: &mut Inst) -> Result<(), Undecodable> {
    let second = words.second()?;
    let bits = |from: u32, width: u32| second >> from & ((1 << width) - 1);
    let bit = |from: u32| bits(from, 1) as u8;
    let part = |select: u32| match select {
        7 => Err(Undecodable::Control(inst.op.name, 7)),
        _ => Ok(select as u8),
    };
    let mut sdwa = Sdwa {
        dst: 6,
        unused: 0,
        src: [part(bits(16, 3))?, part(bits(24, 3))?],
        sext: [bit(19) != 0, bit(27) != 0],
    };
    if inst.op.format == Format::Vopc {
        if bit(15) != 0 {
            inst.sdst = bits(8, 7) as u8;
        }
    } else {
        sdwa.dst = part(bits(8, 3))?;
        sdwa.unused = bits(11, 2) as u8;
        inst.clamp = bit(13) != 0;
        inst.omod = bits(14, 2) as u8;
    }
    inst.neg = bit(20) | bit(28) << 1;
    inst.abs = bit(21) | bit(29) << 1;
    let register = |code: u32, scalar: u8| if scalar != 0 { code } else { code | 256 };
    inst.src[0] = words.src(inst.op, register(bits(0, 8), bit(23)))?;
    if bit(31) != 0 && inst.op.format != Format::Vop1 {
        inst.src[1] = words.src(inst.op, words.bits(9, 8))?;
    }
    inst.select = Select::Sdwa(sdwa);
    Ok(())
}

fn dpp(words: &mut Words, inst: &mut Inst) -> Result<(), Undecodable> {
    let second = words.second()?;
    let bits = |from: u32, width: u32| second >> from & ((1 << width) - 1);
    let dpp = Dpp {
        control: bits(8, 9) as u16,
        rows: bits(28, 4) as u8,
        banks: bits(24, 4) as u8,
        zero: bits(19, 1) != 0,
    };
    if !dpp.is_known() {
        return Err(Undecodable::Control(inst.op.name, dpp.control));
    }
    inst.src[0] = Src::V(bits(0, 8) as u8);
    inst.neg = (bits(20, 1) | bits(22, 1) << 1) as u8;
    inst.abs = (bits(21, 1) | bits(23, 1) << 1) as u8;
    inst.select = Select::Dpp(dpp);
    Ok(())
}

/// Returns whether a VOP3 instruction has a second, scalar result in place of `abs` and `op_sel`.
fn has_sdst(code: u32) -> bool {
    matches!(code, 0x119..=0x11e | 0x1e0 | 0x1e1 | 0x1e8 | 0x1e9)
}

pub(super) fn vop3(words: &mut Words) -> Decoded {
    let code = words.bits(16, 10);
    let op = match code {
        0..=0xff => lookup(Format::Vopc, code),
        0x100..=0x13f => lookup(Format::Vop2, code - 0x100),
        0x140..=0x1bf => lookup(Format::Vop1, code - 0x140),
        _ => lookup(Format::Vop3, code),
    };
    let op = op.map_err(|_| Undecodable::Opcode(Format::Vop3, code as u16))?;
    let mut inst = three(words, op)?;
    inst.omod = (words.second()? >> 27 & 3) as u8;
    if has_sdst(code) {
        inst.sdst = words.bits(8, 7) as u8;
    } else {
        inst.abs = words.bits(8, 3) as u8;
        inst.op_sel = words.bits(11, 4) as u8;
    }
    if code <= 0xff {
        inst.sdst = inst.dst;
    }
    Ok(inst)
}

pub(super) fn vop3p(words: &mut Words) -> Decoded {
    let op = lookup(Format::Vop3p, words.bits(16, 7))?;
    let mut inst = three(words, op)?;
    inst.neg_hi = words.bits(8, 3) as u8;
    inst.op_sel = words.bits(11, 3) as u8;
    inst.op_sel_hi = (words.second()? >> 27 & 3) as u8 | (words.bits(14, 1) << 2) as u8;
    Ok(inst)
}

/// Common part of both encodings with three sources.
fn three(words: &mut Words, op: &'static Op) -> Decoded {
    let second = words.second()?;
    let mut inst = blank(op);
    inst.dst = words.bits(0, 8) as u8;
    inst.clamp = words.bits(15, 1) != 0;
    inst.neg = (second >> 29) as u8;
    for k in 0..3 {
        let code = second >> (9 * k) & 0x1ff;
        if code == 255 {
            return Err(Undecodable::Operand(op.name, 255));
        }
        inst.src[k] = words.src(op, code)?;
    }
    Ok(inst)
}
