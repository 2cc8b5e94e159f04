//! The variant of a kernel.

use super::{guard, offset, parameter, preemption_point, prune::prune};
use crate::text::edit::Edit;
use crate::text::function::{Function, offsets};
use crate::text::module::Module;
use crate::verdict::abandon::{PreemptionPoint, points};
use crate::verdict::facts::Facts;
use crate::verdict::reason::Reason;
use crate::verdict::refuse::{may_be_sliced, may_be_stopped};

/// A kernel that can be stopped, as text for a compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Module with this kernel alone, under its own name.
    pub text: String,
    /// The launch may be cut into several.
    pub may_be_sliced: bool,
    /// Its blocks may leave: it has an entry guard.
    pub may_be_stopped: bool,
    /// Number of places where a running block may be thrown away, before its first effect.
    pub points: usize,
    /// Bytes of each parameter of the kernel; the variant's own comes behind them.
    pub parameters: Vec<usize>,
    /// Bytes before the variant's own parameter.
    pub offset: u64,
}

/// The kernel itself, as the variant has it.
pub(crate) fn pruned(module: &Module<'_>, kernel: &Function<'_>) -> String {
    prune(module, kernel, Edit::default())
}

/// Makes the variant of a kernel.
///
/// # Errors
///
/// The reason for which it may not be stopped.
pub(crate) fn variant<'a>(module: &Module<'a>, kernel: &Function<'a>) -> Result<Variant, Reason> {
    let facts = Facts::read(module, kernel)?;
    may_be_stopped(&facts)?;
    Ok(guarded(&facts, &[]))
}

/// Makes the variant of a kernel whose running blocks may be thrown away, too.
///
/// # Errors
///
/// The reason for which they may not.
pub(crate) fn with_preemption_points<'a>(
    module: &Module<'a>,
    kernel: &Function<'a>,
) -> Result<Variant, Reason> {
    let facts = Facts::read(module, kernel)?;
    let points = points(&facts)?;
    Ok(guarded(&facts, &points))
}

/// A variant with the entry guard. The kernel may be stopped.
pub(crate) fn guarded(facts: &Facts<'_, '_>, points: &[PreemptionPoint]) -> Variant {
    let kernel = facts.code.function;
    let may_be_sliced = may_be_sliced(facts).is_ok();
    let mut edit = Edit::default();
    if may_be_sliced {
        offset::add(&mut edit, kernel);
    }
    guard::add(&mut edit, kernel);
    if !points.is_empty() {
        preemption_point::add(&mut edit, facts, points);
    }
    Variant { points: points.len(), ..with_edit(facts.module, kernel, edit, [may_be_sliced, true]) }
}

/// Makes the variant of a kernel that can be sliced and not stopped: it has no entry guard.
///
/// # Errors
///
/// The reason for which it may not be sliced.
pub(crate) fn sliced<'a>(module: &Module<'a>, kernel: &Function<'a>) -> Result<Variant, Reason> {
    may_be_sliced(&Facts::read(module, kernel)?)?;
    let mut edit = Edit::default();
    offset::add(&mut edit, kernel);
    parameter::add(&mut edit, kernel);
    Ok(with_edit(module, kernel, edit, [true, false]))
}

fn with_edit<'a>(
    module: &Module<'a>,
    kernel: &Function<'a>,
    edit: Edit,
    [may_be_sliced, may_be_stopped]: [bool; 2],
) -> Variant {
    let (_, bytes) = offsets(&kernel.parameters);
    Variant {
        text: prune(module, kernel, edit),
        may_be_sliced,
        may_be_stopped,
        points: 0,
        parameters: kernel.parameters.iter().map(|it| it.bytes as usize).collect(),
        offset: bytes.next_multiple_of(8),
    }
}
