//! Loops that wait for other blocks.
//!
//! Such a loop reads memory that others write meanwhile, by a strong load or an atomic operation,
//! and one of its branches depends on the value. The value is followed through registers,
//! predicates, shuffles, votes, barriers with a result, and memory of the block. A loop that spins
//! on plain loads is a data race by PTX's memory model, and is not found.

use super::access::{Access, AccessKind};
use super::code::{Code, Op};
use super::loops::Loops;
use super::opcode::is_end;
use super::registers::Register;
use super::roots::{Space, space};
use std::collections::HashSet;

/// Index of an instruction that such a loop waits with.
pub(crate) fn wait(code: &Code<'_, '_>, loops: &Loops, accesses: &[Access]) -> Option<usize> {
    loops.cycles().iter().find_map(|cycle| {
        let is_inside = |access: &&Access| loops.are_together(access.op, cycle[0]);
        let sources = accesses.iter().filter(is_inside).filter(|access| is_source(code, access));
        let mut sources: Vec<usize> = sources.map(|access| access.op).collect();
        sources.retain(|source| !is_retry(code, cycle, *source));
        decides(code, cycle, &sources).then(|| sources[0])
    })
}

fn is_source(code: &Code<'_, '_>, access: &Access) -> bool {
    let has_result = !code.ops[access.op].written().is_empty();
    let is_fresh = access.kind == AccessKind::Update || access.is_strong;
    has_result && (is_fresh || access.kind == AccessKind::Unknown)
}

/// Returns whether a compare-and-swap is repeated until no other thread came between: each failure
/// is the success of another thread, so no block waits.
///
/// The form: the result is compared with the operand that was expected, the next turn expects the
/// result, and nothing else is compared with either.
fn is_retry(code: &Code<'_, '_>, cycle: &[usize], at: usize) -> bool {
    let op = &code.ops[at];
    if !op.instruction.has("cas") || op.registers.len() < 4 {
        return false;
    }
    let (&[result], [expected], new) = (op.written(), &op.registers[2][..], &op.registers[3])
    else {
        return false;
    };
    let expected = *expected;
    if result == expected || new.contains(&expected) {
        return false;
    }
    let ops = || cycle.iter().map(|at| &code.ops[*at]);
    let is_updated = ops().any(|op| {
        op.instruction.base() == "mov" && op.written() == [expected] && op.read().eq([result])
    });
    let is_plain = |op: &Op<'_, '_>| {
        let pair: Vec<Register> = op.read().collect();
        let is_equality = op.instruction.has("eq") || op.instruction.has("ne");
        is_equality && (pair == [result, expected] || pair == [expected, result])
    };
    let mut compared = ops().filter(|op| {
        let is_compared = op.read().any(|register| register == result || register == expected);
        matches!(op.instruction.base(), "setp" | "set") && is_compared
    });
    is_updated && compared.all(is_plain)
}

/// Returns whether a value of one of the sources decides a branch of the loop.
fn decides(code: &Code<'_, '_>, cycle: &[usize], sources: &[usize]) -> bool {
    let mut tainted: HashSet<Register> = HashSet::new();
    for source in sources {
        tainted.extend(code.ops[*source].written());
    }
    let mut memory = false;
    loop {
        let before = (tainted.len(), memory);
        for op in cycle.iter().map(|at| &code.ops[*at]) {
            let is_guarded = op.guard.is_some_and(|guard| tainted.contains(&guard));
            let is_read = op.read().any(|register| tainted.contains(&register));
            let is_jump = matches!(op.instruction.base(), "bra" | "brx") || is_end(op.instruction);
            if is_jump && (is_guarded || is_read) {
                return true;
            }
            let is_loaded = memory && is_load_of_block(op);
            if is_guarded || is_read || is_loaded {
                tainted.extend(op.written());
                memory |= is_store_of_block(op);
            }
        }
        if before == (tainted.len(), memory) {
            return false;
        }
    }
}

fn is_load_of_block(op: &Op<'_, '_>) -> bool {
    let is_load = matches!(op.instruction.base(), "ld" | "atom" | "ldmatrix");
    is_load && matches!(space(op.instruction), Space::Shared | Space::Local | Space::Generic)
        || op.instruction.base() == "ldmatrix"
}

fn is_store_of_block(op: &Op<'_, '_>) -> bool {
    let is_store = matches!(op.instruction.base(), "st" | "atom" | "red" | "stmatrix");
    is_store && matches!(space(op.instruction), Space::Shared | Space::Local | Space::Generic)
}
