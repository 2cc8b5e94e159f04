//! Places where a running block may be thrown away.
//!
//! Before its first effect a block has changed nothing that others see, so it may run again from
//! its start, whatever it does later. At a *preemption point* all its threads decide that together:
//!
//! - No effect may run before a preemption point, in any thread. All threads meet there equally
//!   often, and none that has had an effect comes back.
//! - A preemption point takes the place of a barrier of a loop. A loop without one gets a barrier
//!   only if the threads of a block share nothing, so that none waits for another.
//! - Copies that are under way when a block leaves must be ones that can be waited for.

use super::facts::Facts;
use super::in_flight;
use super::reason::{Cause, Reason};
use super::refuse::may_be_stopped;
use crate::flow::access::AccessKind;
use crate::flow::reach::{mark_after, mark_before, previous, round};
use crate::flow::uniform::Uniform;
use crate::text::statement::Instruction;

/// Place of a preemption point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PreemptionPoint {
    /// Index of the instruction: a barrier that it takes the place of, or the first one of a loop.
    pub(crate) op: usize,
    pub(crate) is_barrier: bool,
    /// Instructions of a thread from one pass to the next, at least.
    pub(crate) round: usize,
}

/// Beyond this number of candidates in a kernel, each of them becomes a preemption point.
const MAX_CANDIDATES: usize = 64;

/// Instructions by which threads of a block depend on each other.
const SHARING: &[&str] = &[
    "activemask",
    "bar",
    "barrier",
    "elect",
    "ldmatrix",
    "match",
    "mbarrier",
    "mma",
    "movmatrix",
    "redux",
    "shfl",
    "stmatrix",
    "tcgen05",
    "vote",
    "wgmma",
    "wmma",
];

/// Answers whether a running block may be thrown away at some loop.
///
/// # Errors
///
/// The reason against it.
pub(super) fn may_be_abandoned(facts: &Facts<'_, '_>) -> Result<(), Reason> {
    points(facts).map(drop)
}

/// Preemption points, in the order of the text.
///
/// # Errors
///
/// The reason for which there is none.
pub(crate) fn points(facts: &Facts<'_, '_>) -> Result<Vec<PreemptionPoint>, Reason> {
    may_be_stopped(facts)?;
    let cycles = facts.loops.cycles();
    if cycles.is_empty() {
        return Err(Reason::new(Cause::NoLoop));
    }
    let effects = effects(facts);
    let is_late = mark_after(&facts.code, &effects);
    let early: Vec<usize> = cycles.iter().flatten().copied().filter(|op| !is_late[*op]).collect();
    if early.is_empty() {
        let cause = Cause::EffectFirst;
        return Err(effects.first().map_or_else(
            || Reason::new(cause.clone()),
            |first| facts.reason(cause.clone(), *first),
        ));
    }
    let candidates = candidates(facts, &early)?;
    let safe = in_flight::safe(facts, &candidates)?;
    Ok(places(facts, needed(facts, safe)))
}

/// Barriers of loops that all threads meet together, or first instructions of loops.
fn candidates(facts: &Facts<'_, '_>, early: &[usize]) -> Result<Vec<usize>, Reason> {
    let is_apart = facts.find(|op| SHARING.contains(&op.base()) || op.has("shared")).is_none();
    let candidates: Vec<usize> = if is_apart {
        heads(facts, early)
    } else {
        early.iter().copied().filter(|op| is_whole_barrier(instruction(facts, *op))).collect()
    };
    if candidates.is_empty() {
        return Err(facts.reason(Cause::NoBarrier, early[0]));
    }
    let meetings: Vec<usize> =
        (0..facts.code.ops.len()).filter(|op| may_meet(instruction(facts, *op))).collect();
    let uniform = Uniform::of(&facts.code, &facts.roots);
    // Each meeting before a preemption point must be one of all threads, or phases would not be the
    // same.
    let is_before = mark_before(&facts.code, &candidates);
    let odd = meetings.iter().copied().find(|op| {
        let instruction = instruction(facts, *op);
        is_before[*op]
            && !(uniform.is_together(*op)
                && (is_whole_barrier(instruction) || is_whole_reduction(instruction)))
    });
    if let Some(op) = odd {
        return Err(facts.reason(Cause::Parted, op));
    }
    let first = candidates[0];
    let together: Vec<usize> =
        candidates.into_iter().filter(|op| uniform.is_together(*op)).collect();
    if together.is_empty() {
        return Err(facts.reason(Cause::Parted, first));
    }
    Ok(together)
}

fn instruction<'m, 'a>(facts: &Facts<'m, 'a>, op: usize) -> &'m Instruction<'a> {
    facts.code.ops[op].instruction
}

/// Targets of branches that lead back: first instructions of loops, at all depths.
fn heads(facts: &Facts<'_, '_>, early: &[usize]) -> Vec<usize> {
    let previous = previous(&facts.code);
    let is_head = |op: &usize| {
        previous[*op].iter().any(|from| from >= op && facts.loops.are_together(*from, *op))
    };
    early.iter().copied().filter(is_head).collect()
}

/// As few candidates as have the others' loops, too: those that come later are left out first.
fn needed(facts: &Facts<'_, '_>, mut all: Vec<usize>) -> Vec<usize> {
    if all.len() > MAX_CANDIDATES {
        return all;
    }
    all.sort_unstable();
    let mut dropped = Vec::new();
    for candidate in all.clone().into_iter().rev() {
        let mut rest = all.clone();
        rest.retain(|other| *other != candidate);
        dropped.push(candidate);
        if dropped.iter().all(|op| round(&facts.code, *op, &rest).is_none()) {
            all = rest;
        } else {
            dropped.pop();
        }
    }
    all
}

fn places(facts: &Facts<'_, '_>, ops: Vec<usize>) -> Vec<PreemptionPoint> {
    let place = |op: usize| PreemptionPoint {
        op,
        is_barrier: is_whole_barrier(instruction(facts, op)),
        round: round(&facts.code, op, &[]).unwrap_or(1),
    };
    ops.into_iter().map(place).collect()
}

/// Instructions with effects outside of the block, rising.
fn effects(facts: &Facts<'_, '_>) -> Vec<usize> {
    let written = facts.accesses.iter().filter(|access| {
        access.kind != AccessKind::Read || instruction(facts, access.op).has("mmio")
    });
    let mut effects: Vec<usize> = written.map(|access| access.op).collect();
    let ops = facts.code.ops.iter().enumerate();
    let calls = ops.filter(|(_, op)| op.instruction.base() == "call");
    effects.extend(calls.map(|(at, _)| at));
    effects.sort_unstable();
    effects
}

/// A barrier that may be number 0.
fn may_meet(op: &Instruction<'_>) -> bool {
    let is_of_block = matches!(op.base(), "bar" | "barrier") && !op.has("warp");
    let at = if op.has("red") { 1 } else { 0 };
    let is_other = op.operand(at).parse().is_ok_and(|number: u32| number != 0);
    is_of_block && !is_other
}

/// `bar.sync 0` or `barrier.sync 0` without a count of threads, for all.
fn is_whole_barrier(op: &Instruction<'_>) -> bool {
    may_meet(op)
        && op.has("sync")
        && op.guard.is_none()
        && op.operands.len() == 1
        && op.operand(0) == "0"
}

/// `bar.red.or.pred p, 0, q` and the like, for all.
fn is_whole_reduction(op: &Instruction<'_>) -> bool {
    may_meet(op)
        && op.has("red")
        && op.guard.is_none()
        && op.operands.len() == 3
        && op.operand(1) == "0"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::module::Module;

    /// Lines of the preemption points in the loop of a kernel, or the name of the cause.
    fn of(inside: &str, behind: &str) -> Result<Vec<usize>, &'static str> {
        let text = format!(
            ".version 8.6\n.target sm_90\n.entry k(.param .u64 x, .param .u32 n) {{ .shared .b8 s[64];
                .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
                ld.param.u32 %r1, [n]; ld.param.u64 %rd1, [x]; mov.u32 %r2, 0; mov.u32 %r3, %tid.x;
                setp.eq.u32 %p2, %r3, 0; setp.eq.u32 %p3, %r1, 5;
                $a:\n{inside}\nadd.u32 %r2, %r2, 1;
                setp.lt.u32 %p1, %r2, %r1; @%p1 bra $a; {behind} ret; }}"
        );
        let module = Module::read(&text).unwrap();
        let facts = Facts::read(&module, module.function("k").unwrap()).unwrap();
        let first = module.line(text.find("$a:").unwrap()) + 1;
        let line = |point: &PreemptionPoint| module.line(facts.code.ops[point.op].at) - first;
        match points(&facts) {
            Ok(points) => Ok(points.iter().map(line).collect()),
            Err(reason) => Err(reason.cause.name()),
        }
    }

    const STORE: &str = "st.global.u32 [%rd1], %r2;";

    #[test]
    fn one_preemption_point_is_enough_for_a_loop() {
        assert_eq!(of("bar.sync 0;\nbar.sync 0;\nbarrier.sync 0;", STORE), Ok(vec![0]));
        // A barrier on one way of two is not enough, nor one around an inner loop.
        assert_eq!(of("@%p3 bra $b;\nbar.sync 0;\n$b:\nbar.sync 0;", STORE), Ok(vec![3]));
        let inner = "bar.sync 0;\n$b:\nbar.sync 0;\n@%p3 bra $b;\nbar.sync 0;";
        assert_eq!(of(inner, STORE), Ok(vec![2]));
        let skipped = "bar.sync 0;\n@%p3 bra $c;\n$b:\nbar.sync 0;\n@%p3 bra $b;\n$c:";
        assert_eq!(of(skipped, STORE), Ok(vec![0, 3]));
    }

    #[test]
    fn loop_without_barrier_has_a_point_if_threads_share_nothing() {
        assert_eq!(of("xor.b32 %r3, %r3, 5;", STORE), Ok(vec![0]));
        assert_eq!(of("st.shared.u32 [s], %r2;", STORE), Err("no barrier"));
        assert_eq!(of("shfl.sync.idx.b32 %r4, %r3, 0, 31, -1;", STORE), Err("no barrier"));
        assert_eq!(of("@%p2 bra $c;", &format!("{STORE} $c:")), Err("parted threads"));
        let behind = format!("{STORE} $c: {STORE}");
        assert_eq!(of("@%p2 bra $c;", &behind), Err("parted threads"));
    }

    #[test]
    fn barriers_of_some_threads_have_no_preemption_points() {
        assert_eq!(of("@%p2 bra $b;\nbar.sync 0;\n$b:", STORE), Err("parted threads"));
        assert_eq!(of("@%p2 bar.sync 0;", STORE), Err("no barrier"));
        assert_eq!(of("bar.sync 0, 64;", STORE), Err("no barrier"));
        assert_eq!(of("bar.sync 1;", STORE), Err("no barrier"));
        // Others that may be the same barrier, of which the threads would meet at different ones.
        for odd in ["bar.arrive 0, 64;", "bar.sync %r2;", "@%p2 bar.sync 0;"] {
            assert_eq!(of(&format!("bar.sync 0;\n{odd}"), STORE), Err("parted threads"), "{odd}");
        }
        assert_eq!(
            of("bar.sync 0;\nbar.sync 1, 64;\nbar.red.popc.u32 %r4, 0, %p2;", STORE),
            Ok(vec![0])
        );
    }

    #[test]
    fn effect_before_or_in_a_loop_leaves_no_preemption_point() {
        for effect in
            [STORE, "red.global.add.u32 [%rd1], 1;", "ld.mmio.relaxed.sys.global.u32 %r4, [%rd1];"]
        {
            assert_eq!(of(&format!("bar.sync 0;\n{effect}"), ""), Err("effect first"), "{effect}");
        }
        // The first thread has its effect while the others wait.
        let one = "bar.sync 0;\n@%p2 bra $c;";
        let behind = format!("{STORE} ret; $c: {STORE}");
        assert_eq!(of(one, &behind), Err("parted threads"));
    }
}
