//! Looks: places where all threads of a block leave together, before its first effect.
//!
//! The leader, thread (0, 0, 0), loads the stop word in one of several rounds of a loop, and uses
//! it in the next, so that it does not wait for the load. A barrier gives its verdict to all. Then
//! it records the block as the entry guard does, and a resume runs the block from its start.
//!
//! | register | what |
//! |---|---|
//! | `%reefk0` | twice the number of rounds, odd in all threads but the leader |
//! | `%reefk1` | stop word as it was loaded last; below the run's number in the other threads |

use super::guard::PLACE;
use crate::text::edit::Edit;
use crate::text::function::Function;
use crate::text::statement::Instruction;
use crate::verdict::abandon::Look;
use crate::verdict::facts::Facts;
use crate::verdict::in_flight::waits;

/// Instructions of a thread between two loads of the stop word: some 20 µs.
const BETWEEN: usize = 4096;
/// Upper bound of the rounds between two loads.
const MAX_ROUNDS: usize = 256;

const PROLOGUE: &str = "\
\t.reg .pred %reefq<2>;
\t.reg .b32 %reefk<4>;
\t.reg .b64 %reefa0;
\tld.param.u32 %reefk1, [$reef+20];
\tsub.u32 %reefk1, %reefk1, 1;
\tselp.b32 %reefk0, -1, -2, %reefp0;
";

const IS_TO_LEAVE: &str = "\
ld.param.u32 %reefk3, [$reef+20];
\tsub.u32 %reefk2, %reefk1, %reefk3;
\tsetp.ge.s32 %reefq0, %reefk2, 0;
";

const LOAD: &str = "\
\tsetp.eq.u32 %reefq1, %reefk2, 0;
\tld.param.u64 %reefa0, [$reef];
\t@%reefq1 ld.relaxed.gpu.global.u32 %reefk1, [%reefa0];
";

/// Adds looks to a kernel that has the entry guard.
pub(super) fn add(edit: &mut Edit, facts: &Facts<'_, '_>, looks: &[Look]) {
    let kernel = facts.code.function;
    edit.insert(kernel.body_at, PROLOGUE);
    for (number, look) in looks.iter().enumerate() {
        let op = &facts.code.ops[look.op];
        if look.is_barrier {
            edit.replace(op.at, end(kernel, op.at), at_barrier(op.instruction, look));
        } else {
            edit.insert(op.at, at_head(number, look));
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

/// Bits of `%reefk0` that are zero in the rounds in which the leader loads.
fn mask(look: &Look) -> usize {
    let rounds = (BETWEEN / look.round.max(1)).clamp(1, MAX_ROUNDS);
    let rounds = 1 << rounds.ilog2();
    2 * rounds - 1
}

/// A barrier that is a look, too.
fn at_barrier(barrier: &Instruction<'_>, look: &Look) -> String {
    let (opcode, mask) = (barrier.opcode.replacen(".sync", ".red.or", 1), mask(look));
    format!(
        "{IS_TO_LEAVE}\t{opcode}.pred %reefq0, 0, %reefq0;
\t@%reefq0 bra.uni $reef_leave;
\tadd.u32 %reefk0, %reefk0, 2;
\tand.b32 %reefk2, %reefk0, {mask};
{LOAD}"
    )
}

/// A look at the beginning of a loop without barriers, in some of its rounds.
fn at_head(number: usize, look: &Look) -> String {
    let mask = mask(look) - 1;
    format!(
        "add.u32 %reefk0, %reefk0, 2;
\tand.b32 %reefk2, %reefk0, {mask};
\tsetp.ne.u32 %reefq1, %reefk2, 0;
\t@%reefq1 bra.uni $reef_round{number};
\t{IS_TO_LEAVE}\tbar.red.or.pred %reefq0, 0, %reefq0;
\t@%reefq0 bra.uni $reef_leave;
\tand.b32 %reefk2, %reefk0, 1;
{LOAD}$reef_round{number}:
\t"
    )
}

/// The end of a block that leaves.
fn leave(waits: &str) -> String {
    format!(
        "\tret;
$reef_leave:
{waits}\tand.b32 %reefk2, %reefk0, 1;
\tsetp.ne.u32 %reefq0, %reefk2, 0;
\t@%reefq0 ret;
{PLACE}\tmov.u16 %reefh0, 1;
\tst.global.u8 [%reefd1], %reefh0;
\tld.param.u64 %reefd0, [$reef+48];
\tmov.u32 %reefr0, 1;
\tst.global.u32 [%reefd0], %reefr0;
\tret;
"
    )
}
