//! Numbers that are rounded once, where they are written, and not wherever they are read.
//!
//! A device whose products take singles with fewer bits rounds each number as often as it is
//! multiplied. If all readers of a number round it, its writer can do that instead, and the results
//! are equal bit by bit.

/// Rounding by a device's kernels for an [`Op`](crate::op::Op); all `false` if they don't round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rounding {
    /// They round what they read as their input before anything else: rounded there, it gives the
    /// same outputs.
    pub input: bool,
    /// They can round what they write.
    pub output: bool,
    /// Each number that they write is one that they read as their input: rounded if those are.
    pub keeps: bool,
}

/// Numbers of an op that are rounded.
///
/// ```
/// use reef_op::rounding::{Rounded, Rounding};
///
/// let kernels = Rounding { input: true, output: false, keeps: false };
/// let asked = Rounded { input: true, output: true };
/// assert_eq!(asked.within(kernels), Rounded { input: true, output: false });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rounded {
    /// The input's numbers are rounded.
    pub input: bool,
    /// The output's numbers are to be rounded.
    pub output: bool,
}

impl Rounded {
    /// Returns these without the numbers that kernels with this rounding don't round.
    #[must_use]
    pub fn within(self, allowed: Rounding) -> Self {
        Self { input: self.input && allowed.input, output: self.output && allowed.output }
    }
}
