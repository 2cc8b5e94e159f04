//! One thread: its registers, and one instruction at a time.

use super::memory::Memory;
use crate::flow::code::Op;
use crate::text::function::{Function, offsets, type_bytes};
use std::collections::HashMap;

/// Memory and indices that a thread sees.
pub(super) struct World<'w> {
    pub(super) global: &'w mut dyn Memory,
    pub(super) shared: &'w mut Vec<u8>,
    pub(super) parameters: &'w [u8],
    pub(super) symbols: &'w HashMap<&'w str, u64>,
    pub(super) function: &'w Function<'w>,
    /// `ctaid`, `nctaid`, `ntid`.
    pub(super) indices: [[u32; 3]; 3],
}

pub(super) struct Thread {
    pub(super) registers: Vec<u64>,
    pub(super) at: usize,
    pub(super) tid: [u32; 3],
}

/// State after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Next,
    End,
    /// At a barrier, with the predicate of a reduction.
    Barrier(bool),
}

impl Thread {
    /// Runs the instruction at which the thread stands.
    pub(super) fn step(&mut self, op: &Op<'_, '_>, world: &mut World<'_>) -> Step {
        let instruction = op.instruction;
        let is_on = op.guard.is_none_or(|guard| {
            let is_negated = instruction.guard.is_some_and(|guard| guard.is_negated);
            (self.registers[guard as usize] != 0) != is_negated
        });
        let here = self.at;
        self.at += 1;
        if !is_on {
            return Step::Next;
        }
        match instruction.base() {
            "bra" => self.at = op.next[0],
            "ret" | "exit" => return Step::End,
            "bar" => {
                let is_set = instruction.has("red") && self.value(op, 2, world) != 0;
                self.at = here;
                return Step::Barrier(is_set);
            }
            "membar" | "fence" => {}
            "st" => {
                let bytes = self.value(op, 1, world).to_le_bytes();
                let address = self.address(op, 0, world);
                let width = width(op);
                memory(op, world).store(address, &bytes[..width]);
            }
            "red" => {
                let _ = self.update(op, 0, world);
            }
            "atom" => {
                let old = self.update(op, 1, world);
                self.set(op, old);
            }
            "ld" => {
                let value = self.load(op, world);
                self.set(op, value);
            }
            _ => {
                let value = self.compute(op, world);
                self.set(op, value);
            }
        }
        Step::Next
    }

    pub(super) fn set(&mut self, op: &Op<'_, '_>, value: u64) {
        if let Some(register) = op.written().first() {
            self.registers[*register as usize] = value;
        }
    }

    fn load(&self, op: &Op<'_, '_>, world: &mut World<'_>) -> u64 {
        let (address, width) = (self.address(op, 1, world), width(op));
        if op.instruction.has("param") {
            return u64::from_le_bytes(world.parameters.load(address, width));
        }
        u64::from_le_bytes(memory(op, world).load(address, width))
    }

    /// An atomic operation; gives the old value.
    fn update(&self, op: &Op<'_, '_>, at: usize, world: &mut World<'_>) -> u64 {
        let (address, width) = (self.address(op, at, world), width(op));
        let value = self.value(op, at + 1, world);
        let old = u64::from_le_bytes(memory(op, world).load(address, width));
        let has = |name: &str| op.instruction.has(name);
        let new = match () {
            () if has("add") => old.wrapping_add(value),
            () if has("max") => old.max(value),
            () if has("exch") => value,
            () if has("cas") && old == value => self.value(op, at + 2, world),
            () if has("cas") => old,
            () => panic!("{}", op.instruction.opcode),
        };
        memory(op, world).store(address, &new.to_le_bytes()[..width]);
        old
    }

    fn compute(&self, op: &Op<'_, '_>, world: &World<'_>) -> u64 {
        let instruction = op.instruction;
        let has = |name: &str| instruction.has(name);
        let value = |at| self.value(op, at, world);
        let float = |at| f32::from_bits(value(at) as u32);
        let bits = 8 * width(op) as u32;
        let is_signed = instruction.suffixes().any(|name| name.starts_with('s'));
        let wide = |at| if is_signed { extend(value(at), bits) as u64 } else { value(at) };
        let raw = match instruction.base() {
            "add" if has("f32") => u64::from((float(1) + float(2)).to_bits()),
            "mul" if has("f32") => u64::from((float(1) * float(2)).to_bits()),
            "fma" => u64::from(float(1).mul_add(float(2), float(3)).to_bits()),
            "mov" | "cvta" => value(1),
            "cvt" => return convert(instruction.opcode, value(1)),
            "add" => value(1).wrapping_add(value(2)),
            "neg" => 0_u64.wrapping_sub(value(1)),
            "sub" => value(1).wrapping_sub(value(2)),
            "mul" | "mad" if has("wide") => {
                let addend = if instruction.base() == "mad" { value(3) } else { 0 };
                return wide(1).wrapping_mul(wide(2)).wrapping_add(addend);
            }
            "mul" => value(1).wrapping_mul(value(2)),
            "mad" => value(1).wrapping_mul(value(2)).wrapping_add(value(3)),
            "and" => value(1) & value(2),
            "or" => value(1) | value(2),
            "xor" => value(1) ^ value(2),
            "shl" => value(1).checked_shl(value(2) as u32).unwrap_or(0),
            "shr" => ((extend_if(is_signed, value(1), bits)) >> value(2).min(63)) as u64,
            "selp" => value(if value(3) != 0 { 1 } else { 2 }),
            "setp" => return u64::from(compare(op, value(1), value(2), bits, is_signed)),
            _ => panic!("not interpreted: {}", instruction.opcode),
        };
        if has("pred") { raw & 1 } else { truncate(raw, bits) }
    }

    /// Value of an operand: register, special register, number or symbol.
    fn value(&self, op: &Op<'_, '_>, at: usize, world: &World<'_>) -> u64 {
        if let Some(register) = op.registers[at].first() {
            return self.registers[*register as usize];
        }
        let text = op.instruction.operand(at);
        let (name, dimension) = text.split_once('.').unwrap_or((text, ""));
        let dimension = ["x", "y", "z"].iter().position(|d| *d == dimension);
        let place = ["%ctaid", "%nctaid", "%ntid"].iter().position(|known| *known == name);
        match (name, place, dimension) {
            ("%tid", _, Some(d)) => u64::from(self.tid[d]),
            (_, Some(place), Some(d)) => u64::from(world.indices[place][d]),
            _ => number(text).unwrap_or_else(|| world.symbols[text]),
        }
    }

    fn address(&self, op: &Op<'_, '_>, at: usize, world: &World<'_>) -> usize {
        let text = op.instruction.operand(at).trim_start_matches('[').trim_end_matches(']');
        let (base, offset) = text.split_once('+').unwrap_or((text, "0"));
        let offset: i64 = offset.parse().expect("a decimal offset");
        let base = match op.registers[at].first() {
            Some(register) => self.registers[*register as usize],
            None => {
                let names = world.function.parameters.iter();
                let parameter = names.clone().position(|parameter| parameter.name == base);
                match parameter {
                    Some(at) => offsets(&world.function.parameters).0[at],
                    None => world.symbols[base],
                }
            }
        };
        usize::try_from(base.wrapping_add_signed(offset)).expect("an address")
    }
}

fn memory<'w>(op: &Op<'_, '_>, world: &'w mut World<'_>) -> &'w mut dyn Memory {
    if op.instruction.has("shared") { world.shared } else { world.global }
}

fn width(op: &Op<'_, '_>) -> usize {
    op.instruction.suffixes().filter_map(type_bytes).last().unwrap_or(8) as usize
}

fn number(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    text.parse::<i64>().ok().map(|value| value as u64)
}

fn truncate(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

fn extend(value: u64, bits: u32) -> i64 {
    let unused = 64 - bits.min(64);
    ((value << unused) as i64) >> unused
}

fn extend_if(is_signed: bool, value: u64, bits: u32) -> i128 {
    if is_signed { i128::from(extend(value, bits)) } else { i128::from(truncate(value, bits)) }
}

/// `cvt.TO.FROM` of whole numbers.
fn convert(opcode: &str, value: u64) -> u64 {
    let mut types = opcode.rsplit('.');
    let from = types.next().expect("two types");
    let to = types.next().expect("two types");
    let bits = |name: &str| 8 * type_bytes(name).expect("a type") as u32;
    truncate(extend_if(from.starts_with('s'), value, bits(from)) as u64, bits(to))
}

fn compare(op: &Op<'_, '_>, one: u64, other: u64, bits: u32, is_signed: bool) -> bool {
    let (one, other) = (extend_if(is_signed, one, bits), extend_if(is_signed, other, bits));
    match op.instruction.suffixes().next() {
        Some("eq") => one == other,
        Some("ne") => one != other,
        Some("lt" | "lo") => one < other,
        Some("le" | "ls") => one <= other,
        Some("gt" | "hi") => one > other,
        Some("ge" | "hs") => one >= other,
        _ => panic!("{}", op.instruction.opcode),
    }
}
