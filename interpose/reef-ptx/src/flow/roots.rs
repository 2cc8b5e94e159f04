//! Whose memory an address may point to.
//!
//! Each register has a set of roots: parameters and variables from which its value was computed.
//! Sums keep the roots of both sides. Products, quotients and shifts by less than 32 bits give
//! indices, which have none: no compiler multiplies an address. Values of shared and local memory
//! have the roots of everything that was stored there.

use super::code::{Code, Op};
use super::registers::Register;
use crate::text::cursor::words;
use crate::text::function::{Function, type_bytes};
use crate::text::module::Module;
use crate::text::statement::{Instruction, StatementKind};
use std::collections::HashMap;

/// Set of roots. The low bits have names of their own, the others count [`Roots::named`].
pub(crate) type Mask = u128;

/// Shared memory of the block or of its cluster.
pub(super) const SHARED: Mask = 1;
/// Memory of one thread.
pub(super) const LOCAL: Mask = 1 << 1;
/// Address of the parameters themselves.
pub(super) const PARAMETERS: Mask = 1 << 2;
/// Eight bytes from global memory, which may be an address.
const LOADED: Mask = 1 << 3;
/// Four bytes from global memory: half an address, if they are joined with others.
pub(super) const HALF: Mask = 1 << 4;
/// The way of the address was lost.
pub(super) const LOST: Mask = 1 << 5;
/// Roots that are not known.
pub(crate) const UNKNOWN: Mask = LOADED | HALF | LOST;
/// Memory that no other block sees.
pub(super) const PRIVATE: Mask = SHARED | LOCAL | PARAMETERS;
const FIRST: u32 = 6;

/// Memory that an address may belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Root<'a> {
    /// Pointer in a parameter, by index and offset within it.
    Parameter(usize, u64),
    Variable(&'a str),
}

/// Roots of all registers of a function.
#[derive(Debug)]
pub(crate) struct Roots<'a> {
    registers: Vec<Mask>,
    named: Vec<Root<'a>>,
    symbols: HashMap<&'a str, Mask>,
    shared: Mask,
    local: Mask,
}

impl<'a> Roots<'a> {
    /// Follows values until nothing changes.
    pub(crate) fn of(module: &Module<'a>, code: &Code<'_, 'a>) -> Self {
        let mut roots = Self {
            registers: vec![0; code.registers],
            named: Vec::new(),
            symbols: HashMap::new(),
            shared: 0,
            local: 0,
        };
        roots.add_symbols(module, code.function);
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); code.registers];
        let mut loads = Vec::new();
        for (at, op) in code.ops.iter().enumerate() {
            op.read().for_each(|register| users[register as usize].push(at));
            if matches!(op.instruction.base(), "ld" | "ldu" | "atom" | "ldmatrix") {
                loads.push(at);
            }
        }
        let mut work: Vec<usize> = (0..code.ops.len()).rev().collect();
        let mut is_queued = vec![true; code.ops.len()];
        while let Some(at) = work.pop() {
            is_queued[at] = false;
            let op = &code.ops[at];
            let mut again: Vec<usize> = Vec::new();
            if roots.store(op) {
                again.extend(&loads);
            }
            let values = roots.results(code.function, op);
            for (register, value) in op.written().iter().zip(values) {
                let old = &mut roots.registers[*register as usize];
                if *old | value != *old {
                    *old |= value;
                    again.extend(&users[*register as usize]);
                }
            }
            for user in again {
                if !std::mem::replace(&mut is_queued[user], true) {
                    work.push(user);
                }
            }
        }
        roots
    }

    /// Roots of the address `[base+offset]`, or of a handle of a texture.
    pub(crate) fn address(&self, operand: &str, registers: &[Register]) -> Mask {
        let symbols = words(operand).filter_map(|word| self.symbols.get(word));
        let symbols = symbols.fold(0, |mask, symbol| mask | symbol);
        symbols | self.all(registers)
    }

    pub(crate) fn named(&self, mask: Mask) -> impl Iterator<Item = Root<'a>> {
        let bits = (FIRST..Mask::BITS).filter(move |bit| mask >> bit & 1 == 1);
        bits.map(|bit| self.named[(bit - FIRST) as usize])
    }

    fn all(&self, registers: &[Register]) -> Mask {
        registers.iter().fold(0, |mask, register| mask | self.registers[*register as usize])
    }

    fn add_symbols(&mut self, module: &Module<'a>, function: &Function<'a>) {
        for variable in module.variables() {
            let mask = match variable.space {
                "shared" => SHARED,
                _ => self.bit(Root::Variable(variable.name)),
            };
            self.symbols.insert(variable.name, mask);
        }
        for parameter in &function.parameters {
            self.symbols.insert(parameter.name, PARAMETERS);
        }
        for statement in function.body.iter().flat_map(|body| &body.statements) {
            let StatementKind::Directive(space, operands) = statement.kind else { continue };
            let mask = match space {
                ".shared" => SHARED,
                ".local" => LOCAL,
                ".param" => LOST,
                _ => continue,
            };
            let declared = operands.split('[').next().unwrap_or(operands);
            self.symbols.extend(words(declared).last().map(|name| (name, mask)));
        }
    }

    /// Bit of a root. Those that come after all bits are taken are lost.
    fn bit(&mut self, root: Root<'a>) -> Mask {
        let at = self.named.iter().position(|known| *known == root).unwrap_or(self.named.len());
        if at + FIRST as usize >= Mask::BITS as usize {
            return LOST;
        }
        if at == self.named.len() {
            self.named.push(root);
        }
        1 << (at as u32 + FIRST)
    }

    /// Adds to the summaries what an instruction stores; true if one has grown.
    fn store(&mut self, op: &Op<'_, 'a>) -> bool {
        let instruction = op.instruction;
        let (address, value) = match instruction.base() {
            "st" | "red" => (0, self.operands(op, 1..)),
            "atom" => (1, self.operands(op, 2..)),
            "cp" => (0, LOADED | HALF),
            _ => return false,
        };
        let address = self.address_of(op, address);
        let (shared, local) = match space(instruction) {
            Space::Shared => (true, false),
            Space::Local => (false, true),
            Space::Generic => {
                let is_vague = address == 0 || address & UNKNOWN != 0;
                (is_vague || address & SHARED != 0, is_vague || address & LOCAL != 0)
            }
            _ => (false, false),
        };
        let before = (self.shared, self.local);
        self.shared |= if shared { value } else { 0 };
        self.local |= if local { value } else { 0 };
        before != (self.shared, self.local)
    }

    fn address_of(&self, op: &Op<'_, 'a>, at: usize) -> Mask {
        let registers = op.registers.get(at).map_or(&[][..], Vec::as_slice);
        self.address(op.instruction.operand(at), registers)
    }

    fn operands(&self, op: &Op<'_, 'a>, range: std::ops::RangeFrom<usize>) -> Mask {
        range
            .take_while(|at| *at < op.registers.len())
            .fold(0, |mask, at| mask | self.address_of(op, at))
    }

    /// Roots of each result, one after the other.
    fn results(&mut self, function: &Function<'a>, op: &Op<'_, 'a>) -> Vec<Mask> {
        let count = op.written().len();
        let instruction = op.instruction;
        let one = match instruction.base() {
            "ld" | "ldu" if space(instruction) == Space::Parameter => {
                return self.parameters(function, op);
            }
            "ld" | "ldu" | "atom" => self.loaded(op),
            "ldmatrix" => self.shared,
            "mul" | "mul24" | "div" | "rem" | "setp" | "set" | "tex" | "tld4" | "suld"
            | "isspacep" | "popc" | "clz" | "bfind" | "testp" => 0,
            "mad" | "mad24" | "fma" => self.operands(op, 3..),
            "shl" | "shr" | "shf" => self.shifted(op),
            "selp" | "slct" => self.operands(op, 1..),
            "cvt" => self.operands(op, 1..) & !HALF,
            "mapa" => SHARED,
            "alloca" => LOCAL,
            // Halves that are joined may be an address.
            "mov" if instruction.operand(1).starts_with('{') => {
                let mask = self.operands(op, 1..);
                if mask & HALF != 0 { mask | LOADED } else { mask }
            }
            _ => self.operands(op, 1..),
        };
        vec![one; count]
    }

    fn shifted(&self, op: &Op<'_, 'a>) -> Mask {
        let bits: Option<u32> = op.instruction.operand(2).parse().ok();
        let value = self.operands(op, 1..);
        let is_index = op.instruction.base() != "shf" && bits.is_some_and(|bits| bits < 32);
        if is_index || value & !(HALF | LOST) == 0 { 0 } else { LOST }
    }

    fn loaded(&self, op: &Op<'_, 'a>) -> Mask {
        let address = self.address_of(op, 1);
        let width = op.instruction.suffixes().filter_map(type_bytes).last().unwrap_or(8);
        if op.instruction.suffixes().last().is_some_and(|name| name.starts_with('f')) {
            return 0;
        }
        let outside = match width {
            8.. => LOADED,
            4 => HALF,
            _ => 0,
        };
        match space(op.instruction) {
            Space::Shared => self.shared,
            Space::Local => self.local,
            Space::Generic => {
                let mut mask = 0;
                mask |= if address & SHARED != 0 { self.shared } else { 0 };
                mask |= if address & LOCAL != 0 { self.local } else { 0 };
                mask |= if address & PARAMETERS != 0 { LOST } else { 0 };
                let is_private = address != 0 && address & !PRIVATE == 0;
                if is_private { mask } else { mask | self.shared | outside }
            }
            _ => outside,
        }
    }

    /// Of `ld.param.v2.u64 {a, b}, [k_param_1+16]`: a root for each element of 8 bytes.
    fn parameters(&mut self, function: &Function<'a>, op: &Op<'_, 'a>) -> Vec<Mask> {
        let count = op.written().len();
        let operand = op.instruction.operand(1);
        let width = op.instruction.suffixes().filter_map(type_bytes).last().unwrap_or(8);
        if width < 8 {
            return vec![0; count];
        }
        let place = place(function, operand).filter(|_| op.registers[1].is_empty());
        let Some((index, offset)) = place else {
            return vec![LOST; count];
        };
        let root =
            |element| Root::Parameter(index, offset.saturating_add(width.saturating_mul(element)));
        (0..count as u64).map(|element| self.bit(root(element))).collect()
    }
}

/// Index of the parameter and offset in it, of an address such as `[k_param_1+16]`.
fn place(function: &Function<'_>, operand: &str) -> Option<(usize, u64)> {
    let inner = operand.strip_prefix('[')?.strip_suffix(']')?;
    let (name, offset) = match inner.split_once('+') {
        Some((name, offset)) => (name.trim(), offset.trim().parse().ok()?),
        None => (inner.trim(), 0),
    };
    let index = function.parameters.iter().position(|parameter| parameter.name == name)?;
    Some((index, offset))
}

/// State space of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Constant,
    Parameter,
}

/// State space that the suffixes of an instruction name first.
pub(super) fn space(instruction: &Instruction<'_>) -> Space {
    let named = instruction.suffixes().find_map(|suffix| match suffix.split("::").next()? {
        "global" => Some(Space::Global),
        "shared" => Some(Space::Shared),
        "local" => Some(Space::Local),
        "const" => Some(Space::Constant),
        "param" => Some(Space::Parameter),
        _ => None,
    });
    named.unwrap_or(Space::Generic)
}
