//! A decoded instruction.

use super::space::{Bad, Env};
use super::wave::{Pause, Wave};

/// The encodings, named as in AMD's ISA document. `Flat` stands for its three segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Sop1,
    Sop2,
    Sopk,
    Sopc,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
    Ds,
    Flat,
    Mubuf,
}

/// Function of an instruction, by the state that it may touch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Run {
    /// Registers only.
    Alu(fn(&mut Wave, &Inst)),
    /// Registers and the program counter; may stop the wave.
    Flow(fn(&mut Wave, &Inst) -> Option<Pause>),
    /// Anything, and can be refused.
    Memory(fn(&mut Wave, &Inst, &mut Env<'_>) -> Result<(), Bad>),
}

/// A line of the opcode table.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) format: Format,
    pub(super) code: u16,
    pub(super) name: &'static str,
    pub(super) run: Run,
}

/// Source of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Src {
    /// A vector register.
    V(u8),
    /// A scalar register, with VCC, M0 and EXEC at their numbers.
    S(u8),
    /// A constant by its code, 128 to 254: what it is depends on the type of the operand.
    Inline(u8),
    /// 32 bits that follow the instruction.
    Literal(u32),
}

/// Selection of the lanes of operands and results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Select {
    Plain,
    Sdwa(Sdwa),
    Dpp(Dpp),
}

/// Parts of registers ("sub-dword addressing").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sdwa {
    /// 0 to 3 a byte, 4 and 5 a half, 6 all.
    pub(super) dst: u8,
    /// Rest of the result: 0 zero, 1 sign, 2 stays.
    pub(super) unused: u8,
    pub(super) src: [u8; 2],
    pub(super) sext: [bool; 2],
}

/// Operand 0 from another lane ("data parallel primitive").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dpp {
    pub(super) control: u16,
    pub(super) rows: u8,
    pub(super) banks: u8,
    /// A lane without a source reads zero; otherwise it isn't written.
    pub(super) zero: bool,
}

/// An instruction with its operands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inst {
    pub(super) op: &'static Op,
    pub(super) run: Run,
    pub(super) words: [u32; 2],
    /// Length in bytes.
    pub(super) len: u8,
    /// The result: a vector or a scalar register, as the operation knows.
    pub(super) dst: u8,
    /// A second result, in scalar registers.
    pub(super) sdst: u8,
    pub(super) src: [Src; 3],
    /// Bit k negates operand k; likewise `abs`, `op_sel` and the others.
    pub(super) neg: u8,
    pub(super) abs: u8,
    pub(super) op_sel: u8,
    pub(super) op_sel_hi: u8,
    pub(super) neg_hi: u8,
    /// 1: times 2, 2: times 4, 3: by 2.
    pub(super) omod: u8,
    pub(super) clamp: bool,
    pub(super) select: Select,
    /// The 16 immediate bits, an offset, or the literal of `v_madmk` and `v_madak`.
    pub(super) imm: i32,
    pub(super) mem: Mem,
}

/// Fields that only memory instructions have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mem {
    /// 0 flat, 1 scratch, 2 global.
    pub(super) segment: u8,
    /// The value before is returned (atomics).
    pub(super) glc: bool,
    /// An offset, or an index, comes from a vector register (buffers).
    pub(super) offen: bool,
    pub(super) idxen: bool,
    /// A scalar register that holds the base, where there is one.
    pub(super) base: Option<u8>,
}

impl Inst {
    /// As text for an error: mnemonic and raw words.
    pub(super) fn text(&self) -> String {
        let segment = match (self.op.format, self.mem.segment) {
            (Format::Flat, 1) => "scratch_",
            (Format::Flat, 2) => "global_",
            (Format::Flat, _) => "flat_",
            _ => "",
        };
        let suffix = match self.select {
            Select::Plain => "",
            Select::Sdwa(_) => "_sdwa",
            Select::Dpp(_) => "_dpp",
        };
        let words = &self.words[..usize::from(self.len / 4).min(2)];
        let words: Vec<_> = words.iter().map(|word| format!("{word:08x}")).collect();
        format!("{segment}{}{suffix} ({})", self.op.name, words.join(" "))
    }
}
