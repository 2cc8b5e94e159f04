//! Flags of contexts that a program and a server agree on.

use crate::spec::Spec;
use crate::table::Call;

/// Flags for the waits of threads (`CU_CTX_SCHED_…`), mapped host memory, local memory that stays,
/// and memory operations that wait. Core dumps of the device are files, and not among these.
const KNOWN: u32 = 0x07 | 0x08 | 0x10 | 0x80;

/// Calls whose second argument has the flags of a context.
const CALLS: [Call; 3] =
    [Call::cuCtxCreate_v2, Call::cuDevicePrimaryCtxSetFlags, Call::cuDevicePrimaryCtxSetFlags_v2];

/// Returns whether a call with these arguments may come to a server: it gives a context no flag
/// that has the driver write files, and none that is not known.
pub fn are_context_flags_known(spec: &'static Spec, args: &[usize]) -> bool {
    let has_flags = CALLS.iter().any(|call| std::ptr::eq(spec, call.spec()));
    let flags = args.get(1).map_or(0, |flags| *flags as u32);
    !has_flags || flags & !KNOWN == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Arg;

    #[test]
    fn flags_of_core_dumps_and_unknown_ones_are_not_known() {
        for call in CALLS {
            assert_eq!(call.spec().args[1], Arg::Word32, "{call:?}");
            for (flags, is_known) in [(0, true), (0x9f, true), (0x20, false), (0x40, false)] {
                assert_eq!(are_context_flags_known(call.spec(), &[0, flags, 0]), is_known);
            }
            assert!(!are_context_flags_known(call.spec(), &[0, 1 << 31, 0]));
        }
        assert!(are_context_flags_known(Call::cuStreamCreate.spec(), &[0, 0x20]));
    }
}
