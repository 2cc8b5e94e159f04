//! What terms are computed of.

/// What an earlier term has become.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand<'a> {
    /// A value for each output.
    Each(&'a [f32]),
    /// One value for all of them.
    All(f32),
}
