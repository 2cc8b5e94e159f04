//! Prologue that decides whether a block runs.

use super::parameter;
use crate::text::edit::Edit;
use crate::text::function::Function;

/// The offsets are those of `parameter.rs`. Thread (0, 0, 0) decides; the others wait at the
/// barrier. The stop word is read through L2, where its writers put it. Numbers are compared as the
/// driver's waits do, by the sign of the difference.
const IS_TO_LEAVE: &str = "
\t.reg .pred %reefp<4>;
\t.reg .b16 %reefh<2>;
\t.reg .b32 %reefr<8>;
\t.reg .b64 %reefd<4>;
\tmov.u32 %reefr0, %tid.x;
\tmov.u32 %reefr1, %tid.y;
\tor.b32 %reefr0, %reefr0, %reefr1;
\tmov.u32 %reefr1, %tid.z;
\tor.b32 %reefr0, %reefr0, %reefr1;
\tsetp.ne.u32 %reefp0, %reefr0, 0;
\tsetp.ne.u32 %reefp1, 0, 0;
\t@%reefp0 bra $reef_vote;
\tld.param.u32 %reefr6, [$reef+20];
\tld.param.u64 %reefd0, [$reef];
\tld.relaxed.gpu.global.u32 %reefr0, [%reefd0];
\tsub.u32 %reefr0, %reefr0, %reefr6;
\tsetp.ge.s32 %reefp1, %reefr0, 0;
\tld.param.u32 %reefr5, [$reef+16];
\tsetp.ne.u32 %reefp2, %reefr5, 0;
\t@!%reefp2 bra $reef_place;
\tld.param.u64 %reefd0, [$reef+56];
\tld.relaxed.gpu.global.u32 %reefr0, [%reefd0];
\tsub.u32 %reefr0, %reefr0, %reefr5;
\tsetp.lt.s32 %reefp3, %reefr0, 0;
\t@%reefp3 bra $reef_done;
$reef_place:
";

/// Address of the block's byte in the map, in `%reefd1`.
pub(super) const PLACE: &str = "\
\tmov.u32 %reefr0, %ctaid.x;
\tmov.u32 %reefr1, %ctaid.y;
\tmov.u32 %reefr2, %ctaid.z;
\tld.param.u32 %reefr3, [$reef+24];
\tld.param.u32 %reefr4, [$reef+28];
\tld.param.u32 %reefr5, [$reef+32];
\tadd.u32 %reefr0, %reefr0, %reefr3;
\tadd.u32 %reefr1, %reefr1, %reefr4;
\tadd.u32 %reefr2, %reefr2, %reefr5;
\tld.param.u32 %reefr3, [$reef+36];
\tld.param.u32 %reefr4, [$reef+40];
\tmad.lo.u32 %reefr1, %reefr2, %reefr4, %reefr1;
\tmad.lo.u32 %reefr0, %reefr1, %reefr3, %reefr0;
\tcvt.u64.u32 %reefd1, %reefr0;
\tld.param.u64 %reefd0, [$reef+8];
\tadd.u64 %reefd1, %reefd0, %reefd1;
";

const VERDICT: &str = "\
\tmov.u16 %reefh0, 1;
\t@%reefp2 ld.global.u8 %reefh0, [%reefd1];
\tsetp.eq.u16 %reefp3, %reefh0, 0;
\t@%reefp3 bra $reef_done;
\tor.pred %reefp3, %reefp1, %reefp2;
\tselp.u16 %reefh1, 1, 0, %reefp1;
\t@%reefp3 st.global.u8 [%reefd1], %reefh1;
\t@!%reefp1 bra $reef_vote;
\tld.param.u64 %reefd0, [$reef+48];
\tst.global.u32 [%reefd0], %reefr6;
\tbra $reef_vote;
$reef_done:
\tsetp.eq.u32 %reefp1, 0, 0;
$reef_vote:
\tbar.red.or.pred %reefp1, 0, %reefp1;
\t@%reefp1 ret;
";

/// Adds parameter and prologue to a kernel.
pub(super) fn add(edit: &mut Edit, kernel: &Function<'_>) {
    parameter::add(edit, kernel);
    edit.insert(kernel.body_at, [IS_TO_LEAVE, PLACE, VERDICT].concat());
}
