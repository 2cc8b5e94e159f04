//! From words to instructions, by the encodings of AMD's ISA document.

use std::fmt;

use super::inst::{Dpp, Format, Inst, Mem, Op, Sdwa, Select, Src};
use super::registers::VCC;
use super::table;

/// Why words are not an instruction that can be executed.
#[derive(Debug)]
pub(super) enum Undecodable {
    Encoding,
    Opcode(Format, u16),
    Operand(&'static str, u16),
    Control(&'static str, u16),
    /// The instruction goes on where nothing is mapped.
    Truncated,
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encoding => write!(f, "unknown encoding"),
            Self::Opcode(format, code) => write!(f, "unknown opcode {code:#x} of {format:?}"),
            Self::Operand(name, code) => write!(f, "{name}: unknown operand {code}"),
            Self::Control(name, control) => write!(f, "{name}: unknown lane control {control:#x}"),
            Self::Truncated => write!(f, "instruction goes on where nothing is mapped"),
        }
    }
}

type Decoded = Result<Inst, Undecodable>;

/// Decodes one instruction. `second` is the word after the first, if that is mapped.
pub(super) fn decode(first: u32, second: Option<u32>) -> Decoded {
    let mut words = Words { first, second, used: 4 };
    let mut inst = match first >> 26 {
        0b110000 => smem(&mut words)?,
        0b110100 if first >> 23 & 7 == 7 => vop3p(&mut words)?,
        0b110100 => vop3(&mut words)?,
        0b110110 => ds(&mut words)?,
        0b110111 => flat(&mut words)?,
        0b111000 => mubuf(&mut words)?,
        _ if first >> 31 == 0 => vector(&mut words)?,
        _ if first >> 30 == 0b10 => scalar(&mut words)?,
        _ => return Err(Undecodable::Encoding),
    };
    inst.words = [first, second.unwrap_or(0)];
    inst.len = words.used;
    Ok(inst)
}

struct Words {
    first: u32,
    second: Option<u32>,
    used: u8,
}

impl Words {
    /// Bits `from..from + width` of the first word.
    fn bits(&self, from: u32, width: u32) -> u32 {
        self.first >> from & ((1 << width) - 1)
    }

    fn second(&mut self) -> Result<u32, Undecodable> {
        self.used = 8;
        self.second.ok_or(Undecodable::Truncated)
    }

    /// A source of 9 bits, with its literal if it has one.
    fn src(&mut self, op: &'static Op, code: u32) -> Result<Src, Undecodable> {
        match code {
            0..=127 => Ok(Src::S(code as u8)),
            128..=208 | 235..=238 | 240..=248 | 251..=253 => Ok(Src::Inline(code as u8)),
            255 => Ok(Src::Literal(self.second()?)),
            256.. => Ok(Src::V(code as u8)),
            _ => Err(Undecodable::Operand(op.name, code as u16)),
        }
    }
}

fn blank(op: &'static Op) -> Inst {
    Inst {
        op,
        run: op.run,
        words: [0; 2],
        len: 4,
        dst: 0,
        sdst: VCC,
        src: [Src::Inline(128), Src::Inline(128), Src::S(VCC)],
        neg: 0,
        abs: 0,
        op_sel: 0,
        op_sel_hi: 0,
        neg_hi: 0,
        omod: 0,
        clamp: false,
        select: Select::Plain,
        imm: 0,
        mem: Mem::default(),
    }
}

fn lookup(format: Format, code: u32) -> Result<&'static Op, Undecodable> {
    table::find(format, code as u16).ok_or(Undecodable::Opcode(format, code as u16))
}

fn scalar(words: &mut Words) -> Decoded {
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

fn smem(words: &mut Words) -> Decoded {
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

/// VOP1, VOP2 and VOPC, which share the selections of their operands.
fn vector(words: &mut Words) -> Decoded {
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

/// Whether a VOP3 instruction has a second, scalar result in place of `abs` and `op_sel`.
fn has_sdst(code: u32) -> bool {
    matches!(code, 0x119..=0x11e | 0x1e0 | 0x1e1 | 0x1e8 | 0x1e9)
}

fn vop3(words: &mut Words) -> Decoded {
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

fn vop3p(words: &mut Words) -> Decoded {
    let op = lookup(Format::Vop3p, words.bits(16, 7))?;
    let mut inst = three(words, op)?;
    inst.neg_hi = words.bits(8, 3) as u8;
    inst.op_sel = words.bits(11, 3) as u8;
    inst.op_sel_hi = (words.second()? >> 27 & 3) as u8 | (words.bits(14, 1) << 2) as u8;
    Ok(inst)
}

/// What both encodings with three sources share.
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

/// Registers of the second word of DS, FLAT and MUBUF.
fn register(second: u32, from: u32) -> Src {
    Src::V((second >> from) as u8)
}

fn ds(words: &mut Words) -> Decoded {
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

fn flat(words: &mut Words) -> Decoded {
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

fn mubuf(words: &mut Words) -> Decoded {
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
