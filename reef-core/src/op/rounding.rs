//! Numbers that are rounded once, where they are written, and not wherever they are read.
//!
//! A device whose products take singles with fewer bits rounds each number as often as it is
//! multiplied. If nobody else reads it, whoever writes it can do that, and not one bit of what
//! comes out is another.

/// What a device's kernels for an [`Op`](crate::op::Op) do about rounding; all `false` if they
/// don't round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rounding {
    /// They round what they read as their input before anything else: rounded there, it gives the
    /// same outputs.
    pub input: bool,
    /// They can round what they write.
    pub output: bool,
    /// Each number that they write is one that they read as their input: rounded if those are.
    pub keeps: bool,
}

/// Which of an op's numbers are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rounded {
    /// Those of the input are.
    pub input: bool,
    /// Those of the output are to be.
    pub output: bool,
}

impl Rounded {
    /// Without what kernels that do this about rounding don't round.
    #[must_use]
    pub fn within(self, allowed: Rounding) -> Self {
        Self { input: self.input && allowed.input, output: self.output && allowed.output }
    }
}
