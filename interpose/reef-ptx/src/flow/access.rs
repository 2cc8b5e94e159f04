//! Memory outside of the block that instructions read and write.

use super::code::{Code, Op};
use super::roots::{HALF, LOST, Mask, PARAMETERS, PRIVATE, Roots, Space, space};
use crate::text::statement::Instruction;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessKind {
    Read,
    Write,
    /// Atomic: reads and writes at once.
    Update,
    /// The instruction is not known, and names memory.
    Unknown,
}

/// Access to memory that other blocks see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    /// Index of the instruction.
    pub(crate) op: usize,
    pub(crate) kind: AccessKind,
    pub(crate) roots: Mask,
    /// `.volatile`, `.relaxed`, `.acquire` and the like: meant for what others write meanwhile.
    pub(crate) is_strong: bool,
}

const STRONG: &[&str] =
    &["volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "cv", "mmio"];

/// Instructions with an address that is not of memory outside of the block, or that have no
/// effect on its contents.
const WITHOUT_ACCESS: &[&str] = &[
    "applypriority",
    "clusterlaunchcontrol",
    "createpolicy",
    "fence",
    "isspacep",
    "ldmatrix",
    "mbarrier",
    "membar",
    "prefetch",
    "prefetchu",
    "stmatrix",
    "tcgen05",
    "txq",
    "suq",
];

/// Accesses of a function, in the order of the text.
pub(crate) fn accesses(code: &Code<'_, '_>, roots: &Roots<'_>) -> Vec<Access> {
    let mut all = Vec::new();
    for (at, op) in code.ops.iter().enumerate() {
        let instruction = op.instruction;
        let Some((kind, operand)) = kind(instruction) else { continue };
        let registers = op.registers.get(operand).map_or(&[][..], Vec::as_slice);
        let mut mask = roots.address(instruction.operand(operand), registers);
        if is_handle(instruction) {
            mask &= !HALF; // of coordinates
            // A tensor map in a parameter says where the memory is.
            mask |= if mask & PARAMETERS != 0 { LOST } else { 0 };
        }
        if kind == AccessKind::Unknown {
            mask = LOST;
        }
        if is_outside(op, mask) {
            let is_strong = instruction.suffixes().any(|suffix| STRONG.contains(&suffix));
            let access = Access { op: at, kind, roots: mask & !PRIVATE, is_strong };
            all.push(access);
        }
    }
    all
}

/// Kind of access and the operand with the address.
fn kind(instruction: &Instruction<'_>) -> Option<(AccessKind, usize)> {
    use AccessKind::{Read, Unknown, Update, Write};
    let has_address = instruction.operands.iter().any(|operand| operand.text.contains('['));
    match instruction.base() {
        "ld" | "ldu" | "tex" | "tld4" | "suld" => Some((Read, 1)),
        "st" | "sust" | "discard" | "tensormap" => Some((Write, 0)),
        "atom" => Some((Update, 1)),
        "red" | "sured" => Some((Update, 0)),
        "multimem" => Some((Unknown, 0)),
        "wmma" if instruction.has("load") => Some((Read, 1)),
        "wmma" if instruction.has("store") => Some((Write, 0)),
        "cp" => copy(instruction),
        base if WITHOUT_ACCESS.contains(&base) || !has_address => None,
        _ => Some((Unknown, 0)),
    }
}

/// `cp.async`, `cp.async.bulk`, `cp.async.bulk.tensor`, `cp.reduce.async.bulk`: target first.
fn copy(instruction: &Instruction<'_>) -> Option<(AccessKind, usize)> {
    let is_still = instruction.has("prefetch") || instruction.has("mbarrier");
    if is_still || !instruction.operand(0).contains('[') {
        return None; // waits, groups
    }
    let is_reduction = instruction.has("reduce");
    let is_to_global = space(instruction) == Space::Global;
    if is_to_global {
        return Some((if is_reduction { AccessKind::Update } else { AccessKind::Write }, 0));
    }
    instruction.has("global").then_some((AccessKind::Read, 1))
}

/// Returns whether the address is that of a texture, surface or tensor map, with coordinates.
fn is_handle(instruction: &Instruction<'_>) -> bool {
    matches!(instruction.base(), "tex" | "tld4" | "suld" | "sust" | "sured")
        || instruction.has("tensor")
}

fn is_outside(op: &Op<'_, '_>, mask: Mask) -> bool {
    match space(op.instruction) {
        Space::Global => true,
        // A copy into shared memory was found to read global memory.
        Space::Shared => op.instruction.base() == "cp",
        Space::Generic => mask == 0 || mask & !PRIVATE != 0,
        Space::Local | Space::Constant | Space::Parameter => false,
    }
}
