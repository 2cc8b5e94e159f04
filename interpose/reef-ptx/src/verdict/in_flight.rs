//! Work of a block that goes on by itself, and must have ended when the block leaves.

use super::facts::Facts;
use super::reason::{Cause, Reason};
use crate::flow::reach::mark_after;
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

/// Places at which nothing is under way that cannot be waited for, of some.
///
/// # Errors
///
/// At each of them there is.
pub(super) fn safe(facts: &Facts<'_, '_>, places: &[usize]) -> Result<Vec<usize>, Reason> {
    let ops = facts.code.ops.iter().enumerate();
    let endless: Vec<usize> =
        ops.filter(|(_, op)| is_endless(op.instruction)).map(|(at, _)| at).collect();
    let is_after = mark_after(&facts.code, &endless);
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

/// Work whose end only a barrier object in shared memory shows, in a phase that a preemption point
/// does not know: bulk copies, remote stores, arrivals of copies; and tensor memory, which must be
/// freed.
fn is_endless(op: &Instruction<'_>) -> bool {
    match op.base() {
        "cp" => op.has("mbarrier") || op.has("bulk") && !op.has("prefetch"),
        "st" | "red" => op.has("async"),
        "tcgen05" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::kernels;
    use crate::text::module::Module;
    use crate::verdict::reason::{Cause, Reason};

    /// A variant with preemption points of a kernel that has this in a loop with a barrier, and
    /// that before it.
    fn with_preemption_points(before: &str, inside: &str) -> Result<String, Reason> {
        let text = format!(
            ".version 8.6\n.target sm_100a\n.entry k(.param .u64 x, .param .u32 n) {{
                .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .b8 s[64];
                ld.param.u32 %r1, [n]; ld.param.u64 %rd1, [x]; mov.u32 %r2, 0; {before}
                $a: bar.sync 0; {inside} add.u32 %r2, %r2, 1;
                setp.lt.u32 %p1, %r2, %r1; @%p1 bra $a; st.global.u32 [%rd1], %r2; ret; }}"
        );
        let module = Module::read(&text).unwrap();
        let kernel = kernels(&module).next().unwrap();
        kernel.with_preemption_points().map(|variant| variant.text)
    }

    #[test]
    fn block_that_leaves_waits_for_its_own_copies_and_products() {
        let waits = ["cp.async.wait_all;", "wgmma.wait_group.sync.aligned 0;"];
        let of = |inside: &str| {
            let text = with_preemption_points("", inside).unwrap();
            let (_, leave) = text.split_once("$reef_leave:").unwrap();
            waits.map(|wait| leave.contains(wait))
        };
        assert_eq!(of(""), [false, false]);
        assert_eq!(of("cp.async.bulk.prefetch.L2.global [%rd1], 64;"), [false, false]);
        assert_eq!(of("cp.async.ca.shared.global [s], [%rd1], 4;"), [true, false]);
        let product = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r3,%r4,%r5,%r6}, %rd2, %rd3, 1, 1, 1, 0, 0;";
        assert_eq!(of(product), [false, true]);
    }

    #[test]
    fn work_that_cannot_be_waited_for_is_refused() {
        let endless = [
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 16, [s+32];",
            "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [%rd1, {%r2}], [s+32];",
            "cp.async.mbarrier.arrive.shared.b64 [s];",
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r2], %r3, [%r4];",
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 64;",
        ];
        for work in endless {
            for (before, inside) in [(work, ""), ("", work)] {
                let reason = with_preemption_points(before, inside).unwrap_err();
                assert!(matches!(reason.cause, Cause::InFlight(_)), "{work}: {reason}");
            }
        }
    }
}
