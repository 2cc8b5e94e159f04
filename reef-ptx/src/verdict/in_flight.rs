//! Work of a block that goes on by itself, and must have ended when the block leaves.

use super::facts::Facts;
use super::reason::{Cause, Reason};
use crate::flow::reach::after;
use crate::text::statement::Instruction;

/// Instructions that wait for all that a thread has under way.
pub(crate) fn waits(facts: &Facts<'_, '_>) -> String {
    let found = [
        (is_copy as fn(&Instruction<'_>) -> bool, "\tcp.async.wait_all;\n"),
        (is_product, "\twgmma.wait_group.sync.aligned 0;\n"),
    ];
    let needed = found.iter().filter(|(is, _)| facts.find(is).is_some());
    needed.map(|(_, wait)| *wait).collect()
}

/// Those of some places at which nothing is under way that cannot be waited for.
///
/// # Errors
///
/// At each of them there is.
pub(super) fn safe(facts: &Facts<'_, '_>, places: &[usize]) -> Result<Vec<usize>, Reason> {
    let ops = facts.code.ops.iter().enumerate();
    let endless: Vec<usize> =
        ops.filter(|(_, op)| is_endless(op.instruction)).map(|(at, _)| at).collect();
    let is_after = after(&facts.code, &endless);
    let safe: Vec<usize> = places.iter().copied().filter(|place| !is_after[*place]).collect();
    if safe.is_empty() {
        let first = endless.first().copied().unwrap_or_default();
        let name = facts.code.ops[first].instruction.opcode.to_owned();
        return Err(facts.reason(Cause::InFlight(name), first));
    }
    Ok(safe)
}

/// `cp.async` of a thread's own.
fn is_copy(op: &Instruction<'_>) -> bool {
    op.base() == "cp" && op.has("async") && !op.has("bulk") && op.operand(0).contains('[')
}

fn is_product(op: &Instruction<'_>) -> bool {
    op.base() == "wgmma" && op.has("mma_async")
}

/// Work whose end only a barrier object in shared memory shows, in a phase that a look does not
/// know: bulk copies, remote stores, arrivals of copies; and tensor memory, which must be freed.
fn is_endless(op: &Instruction<'_>) -> bool {
    match op.base() {
        "cp" => op.has("mbarrier") || op.has("bulk") && !op.has("prefetch"),
        "st" | "red" => op.has("async"),
        "tcgen05" => true,
        _ => false,
    }
}
