//! Encodings of memory: DS, FLAT and MUBUF.

use super::words::{Decoded, Undecodable, Words, blank, lookup};
use crate::isa::inst::{Format, Mem, Src};

/// Registers of the second word of DS, FLAT and MUBUF.
fn register(second: u32, from: u32) -> Src {
    Src::V((second >> from) as u8)
}

pub(super) fn ds(words: &mut Words) -> Decoded {
    let second = words.second()?;
    let mut inst = blank(lookup(Format::Ds, words.bits(17, 8))?);
    if words.bits(16, 1) != 0 {
        return Err(Undecodable::Control(inst.op.name, 1));
    }
    inst.imm = words.bits(0, 16) as i32;
    inst.src = [register(second, 0), register(second, 8), register(second, 16)];
    inst.dst = (second >> 24) as u8;
    Ok(inst)
}

pub(super) fn flat(words: &mut Words) -> Decoded {
    let second = words.second()?;
    let mut inst = blank(lookup(Format::Flat, words.bits(18, 7))?);
    let segment = words.bits(14, 2) as u8;
    if segment == 3 || words.bits(13, 1) != 0 {
        return Err(Undecodable::Encoding);
    }
    inst.imm = match segment {
        0 => words.bits(0, 12) as i32,
        _ => (words.first << 19) as i32 >> 19,
    };
    let base = second >> 16 & 127;
    inst.mem = Mem {
        segment,
        glc: words.bits(16, 1) != 0,
        base: (segment != 0 && base != 127).then_some(base as u8),
        ..Mem::default()
    };
    inst.src[0] = register(second, 0);
    inst.src[1] = register(second, 8);
    inst.dst = (second >> 24) as u8;
    Ok(inst)
}

pub(super) fn mubuf(words: &mut Words) -> Decoded {
    let second = words.second()?;
    let mut inst = blank(lookup(Format::Mubuf, words.bits(18, 7))?);
    if words.bits(16, 1) != 0 || second >> 23 & 1 != 0 {
        return Err(Undecodable::Encoding);
    }
    inst.imm = words.bits(0, 12) as i32;
    inst.mem = Mem {
        segment: 0,
        glc: words.bits(14, 1) != 0,
        offen: words.bits(12, 1) != 0,
        idxen: words.bits(13, 1) != 0,
        base: Some((second >> 16 & 31) as u8 * 4),
    };
    inst.src[0] = register(second, 0);
    inst.src[1] = register(second, 8);
    inst.dst = (second >> 8) as u8;
    let offset = second >> 24;
    inst.src[2] = words.src(inst.op, offset)?;
    Ok(inst)
}
