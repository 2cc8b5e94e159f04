//! Looks: places where all threads of a block leave together, before its first effect.
//!
//! In one of several rounds of a loop, a barrier gives the verdict of the leader, thread (0, 0, 0),
//! to all. In the other rounds it is as it was: a verdict in each costs up to 50 % in short rounds
//! (H200, 2026-11-27). The leader then loads the stop word, and uses it at the next preemption
//! point, so that it does not wait for the load. If the block is to leave, the leader records it as
//! the entry guard does, and a resume runs the block from its start.
//!
//! | register | what |
//! |---|---|
//! | `%reefk0` | number of rounds, the same in all threads |
//! | `%reefk1` | stop word as it was loaded last; below the run's number in the other threads |

use super::guard::PLACE;
use crate::text::edit::Edit;
use crate::text::function::Function;
use crate::verdict::abandon::PreemptionPoint;
use crate::verdict::facts::Facts;
use crate::verdict::in_flight::waits;

/// Instructions of a thread between two preemption points: some 10 µs.
const BETWEEN: usize = 2048;
/// Upper bound of the rounds between two preemption points.
const MAX_ROUNDS: usize = 256;

const PROLOGUE: &str = "\
\t.reg .pred %reefq<2>;
\t.reg .b32 %reefk<4>;
\t.reg .b64 %reefa0;
\tld.param.u32 %reefk1, [$reef+20];
\tsub.u32 %reefk1, %reefk1, 1;
\tmov.u32 %reefk0, -1;
";

const IS_TO_LEAVE: &str = "\
\tld.param.u32 %reefk3, [$reef+20];
\tsub.u32 %reefk2, %reefk1, %reefk3;
\tsetp.ge.s32 %reefq0, %reefk2, 0;
";

/// `%reefq1` in the leader alone.
const IS_LEADER: &str = "\
\tmov.u32 %reefk2, %tid.x;
\tmov.u32 %reefk3, %tid.y;
\tor.b32 %reefk2, %reefk2, %reefk3;
\tmov.u32 %reefk3, %tid.z;
\tor.b32 %reefk2, %reefk2, %reefk3;
\tsetp.eq.u32 %reefq1, %reefk2, 0;
";

const LOAD: &str = "\
\tld.param.u64 %reefa0, [$reef];
\t@%reefq1 ld.relaxed.gpu.global.u32 %reefk1, [%reefa0];
";

/// Adds preemption points to a kernel that has the entry guard.
pub(super) fn add(edit: &mut Edit, facts: &Facts<'_, '_>, points: &[PreemptionPoint]) {
    let kernel = facts.code.function;
    edit.insert(kernel.body_at, PROLOGUE);
    for (number, point) in points.iter().enumerate() {
        let op = &facts.code.ops[point.op];
        if point.is_barrier {
            let end = end(kernel, op.at);
            let barrier = &facts.module.text[op.at..end];
            let reduction = op.instruction.opcode.replacen(".sync", ".red.or", 1) + ".pred";
            edit.replace(op.at, end, text(number, point, &reduction, barrier));
        } else {
            edit.insert(op.at, text(number, point, "bar.red.or.pred", ""));
        }
    }
    if let Some(body) = &kernel.body {
        edit.insert(body.end, leave(&waits(facts)));
    }
}

/// Place behind the semicolon of the instruction at a place.
fn end(kernel: &Function<'_>, at: usize) -> usize {
    kernel.located().find(|(statement, ..)| statement.at == at).map_or(at, |found| found.0.end)
}

/// Rounds from one preemption point to the next, a power of two.
fn rounds(point: &PreemptionPoint) -> usize {
    1 << (BETWEEN / point.round.max(1)).clamp(1, MAX_ROUNDS).ilog2()
}

/// A preemption point, and what stands there in the rounds without one.
fn text(number: usize, point: &PreemptionPoint, reduction: &str, barrier: &str) -> String {
    let mask = rounds(point) - 1;
    format!(
        "add.u32 %reefk0, %reefk0, 1;
\tand.b32 %reefk2, %reefk0, {mask};
\tsetp.ne.u32 %reefq1, %reefk2, 0;
\t@%reefq1 bra.uni $reef_plain{number};
{IS_TO_LEAVE}\t{reduction} %reefq0, 0, %reefq0;
\t@%reefq0 bra.uni $reef_leave;
{IS_LEADER}{LOAD}\tbra.uni $reef_round{number};
$reef_plain{number}:
\t{barrier}
$reef_round{number}:
\t"
    )
}

/// The end of a block that leaves.
fn leave(waits: &str) -> String {
    format!(
        "\tret;
$reef_leave:
{waits}{IS_LEADER}\t@!%reefq1 ret;
{PLACE}\tmov.u16 %reefh0, 1;
\tst.global.u8 [%reefd1], %reefh0;
\tld.param.u64 %reefd0, [$reef+48];
\tld.param.u32 %reefr0, [$reef+20];
\tst.global.u32 [%reefd0], %reefr0;
\tret;
"
    )
}
