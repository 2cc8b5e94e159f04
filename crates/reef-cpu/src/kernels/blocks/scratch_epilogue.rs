//! Formulas behind sums that are still in a unit's scratch memory.

use super::plan::Share;
use super::stop_token::StopToken;
use std::fmt::Debug;

/// A formula behind sums.
///
/// Sums of a share are rows of pixels, each with an output for each column.
pub(in crate::kernels) trait ScratchEpilogue: Debug + Send + Sync {
    /// Floats of scratch memory that it wants for itself.
    fn scratch(&self) -> usize;

    /// Replaces the sums of `share`, whose rows lie `pitch` floats apart, by what becomes of them.
    /// False if the block was stopped.
    fn rows(
        &self,
        sums: &mut [f32],
        pitch: usize,
        share: &Share,
        scratch: &mut [f32],
        stop: StopToken<'_>,
    ) -> bool;
}
