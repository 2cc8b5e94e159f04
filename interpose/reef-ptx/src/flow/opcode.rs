//! Results of instructions.

use crate::text::statement::Instruction;

/// Instructions whose first operand is not a result, though it is not an address.
const WITHOUT_RESULT: &[&str] = &[
    "bra",
    "brkpt",
    "brx",
    "call",
    "exit",
    "fence",
    "griddepcontrol",
    "membar",
    "nanosleep",
    "pmevent",
    "red",
    "ret",
    "setmaxnreg",
    "st",
    "stackrestore",
    "sured",
    "sust",
    "trap",
];

/// Returns whether the first operand of an instruction is written.
pub(super) fn has_result(instruction: &Instruction<'_>) -> bool {
    let base = instruction.base();
    let first = instruction.operand(0);
    if first.contains('[') || WITHOUT_RESULT.contains(&base) {
        return false;
    }
    match base {
        "bar" | "barrier" => instruction.has("red"),
        // `tcgen05.mma` and `.alloc` name memory; `.dealloc`, `.cp`, `.wait` have none.
        "tcgen05" => instruction.has("ld"),
        _ => true,
    }
}

/// Returns whether an instruction ends the thread, unless a predicate prevents that.
pub(super) fn is_end(instruction: &Instruction<'_>) -> bool {
    matches!(instruction.base(), "ret" | "exit" | "trap")
}
