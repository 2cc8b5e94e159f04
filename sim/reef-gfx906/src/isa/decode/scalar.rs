//! Scalar encodings: SOP1, SOP2, SOPC, SOPK, SOPP and SMEM.

use super::words::{Decoded, Words, blank, lookup};
use crate::isa::inst::{Format, Src};

pub(super) fn scalar(words: &mut Words) -> Decoded {
    match words.first >> 23 {
        0b1_0111_1101 => {
            let mut inst = blank(lookup(Format::Sop1, words.bits(8, 8))?);
            inst.dst = words.bits(16, 7) as u8;
            inst.src[0] = words.src(inst.op, words.bits(0, 8))?;
            inst.imm = words.bits(0, 8) as i32;
            Ok(inst)
        }
        0b1_0111_1110 => {
            let mut inst = blank(lookup(Format::Sopc, words.bits(16, 7))?);
            inst.imm = words.bits(8, 8) as i32;
            inst.src[0] = words.src(inst.op, words.bits(0, 8))?;
            inst.src[1] = words.src(inst.op, words.bits(8, 8))?;
            Ok(inst)
        }
        0b1_0111_1111 => {
            let mut inst = blank(lookup(Format::Sopp, words.bits(16, 7))?);
            inst.imm = words.first as i16 as i32;
            Ok(inst)
        }
        _ if words.first >> 28 == 0b1011 => sopk(words),
        _ => {
            let mut inst = blank(lookup(Format::Sop2, words.bits(23, 7))?);
            inst.dst = words.bits(16, 7) as u8;
            inst.src[0] = words.src(inst.op, words.bits(0, 8))?;
            inst.src[1] = words.src(inst.op, words.bits(8, 8))?;
            Ok(inst)
        }
    }
}

fn sopk(words: &mut Words) -> Decoded {
    let mut inst = blank(lookup(Format::Sopk, words.bits(23, 5))?);
    inst.dst = words.bits(16, 7) as u8;
    inst.imm = words.first as i16 as i32;
    if inst.op.name == "s_setreg_imm32_b32" {
        inst.src[0] = Src::Literal(words.second()?);
    }
    Ok(inst)
}

pub(super) fn smem(words: &mut Words) -> Decoded {
    let second = words.second()?;
    let mut inst = blank(lookup(Format::Smem, words.bits(18, 8))?);
    inst.dst = words.bits(6, 7) as u8;
    inst.mem.base = Some(words.bits(0, 6) as u8 * 2);
    let (immediate, register) = (words.bits(17, 1) != 0, words.bits(14, 1) != 0);
    if immediate {
        inst.imm = (second << 11) as i32 >> 11;
    } else {
        inst.src[0] = Src::S(second as u8 & 127);
    }
    if register {
        inst.src[0] = Src::S((second >> 25) as u8);
    }
    Ok(inst)
}
