//! Common parts of all encodings.

use crate::isa::inst::{Format, Inst, Mem, Op, Select, Src};
use crate::isa::registers::VCC;
use crate::isa::table;
use std::fmt;

/// Why words are not an instruction that can be executed.
#[derive(Debug)]
pub(in crate::isa) enum Undecodable {
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

pub(super) type Decoded = Result<Inst, Undecodable>;

/// The words of an instruction.
pub(super) struct Words {
    pub(super) first: u32,
    second: Option<u32>,
    used: u8,
}

impl Words {
    pub(super) fn new(first: u32, second: Option<u32>) -> Self {
        Self { first, second, used: 4 }
    }

    /// Bytes of those that were looked at.
    pub(super) fn used(&self) -> u8 {
        self.used
    }

    /// Bits `from..from + width` of the first word.
    pub(super) fn bits(&self, from: u32, width: u32) -> u32 {
        self.first >> from & ((1 << width) - 1)
    }

    pub(super) fn second(&mut self) -> Result<u32, Undecodable> {
        self.used = 8;
        self.second.ok_or(Undecodable::Truncated)
    }

    /// A source of 9 bits, with its literal if it has one.
    pub(super) fn src(&mut self, op: &'static Op, code: u32) -> Result<Src, Undecodable> {
        match code {
            0..=127 => Ok(Src::S(code as u8)),
            128..=208 | 235..=238 | 240..=248 | 251..=253 => Ok(Src::Inline(code as u8)),
            255 => Ok(Src::Literal(self.second()?)),
            256.. => Ok(Src::V(code as u8)),
            _ => Err(Undecodable::Operand(op.name, code as u16)),
        }
    }
}

/// An instruction of which only its line of the table is known.
pub(super) fn blank(op: &'static Op) -> Inst {
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

/// The line of an opcode.
pub(super) fn lookup(format: Format, code: u32) -> Result<&'static Op, Undecodable> {
    table::find(format, code as u16).ok_or(Undecodable::Opcode(format, code as u16))
}
