//! All verdicts on one kernel.

use super::abandon::may_be_abandoned;
use super::facts::Facts;
use super::reason::Reason;
use super::refuse::{may_be_sliced, may_be_stopped};
use super::rerun::{Rerun, rerun};
use crate::text::function::Function;
use crate::text::module::Module;

/// Verdicts on a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Blocks that have not begun may be held back and run later, exactly once.
    pub stop: Result<(), Reason>,
    /// A launch may be cut into several.
    pub slice: Result<(), Reason>,
    /// A running block may be thrown away in a loop before its first effect.
    pub abandon: Result<(), Reason>,
    /// The whole kernel may run again.
    pub rerun: Rerun,
}

/// Verdicts on a kernel of a module.
pub(crate) fn verdict<'a>(module: &Module<'a>, kernel: &Function<'a>) -> Verdict {
    match Facts::read(module, kernel) {
        Ok(facts) => Verdict {
            stop: may_be_stopped(&facts),
            slice: may_be_sliced(&facts),
            abandon: may_be_abandoned(&facts),
            rerun: rerun(&facts),
        },
        Err(reason) => Verdict {
            stop: Err(reason.clone()),
            slice: Err(reason.clone()),
            abandon: Err(reason.clone()),
            rerun: Rerun::Unknown(reason),
        },
    }
}
