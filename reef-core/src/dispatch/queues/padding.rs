//! Source of the blocks that run next to a real-time kernel.

use crate::backend::command::Launch;
use crate::backend::info::DeviceInfo;
use crate::backend::resources::Padding;
use crate::backend::types::Backend;

/// Best-effort kernels that may run next to real-time ones.
pub(crate) trait PaddingSource<B: Backend> {
    /// Returns whether nothing will come from here.
    fn is_empty(&self) -> bool;

    /// Returns a padding of `rt`, if some kernel has blocks that fit.
    fn pad(&mut self, rt: &Launch<B>, info: &DeviceInfo) -> Option<Padded<B>>;
}

/// A padding, with the kernel that it takes blocks from.
#[derive(Debug)]
pub(crate) struct Padded<B: Backend> {
    /// The client whose blocks they are.
    pub(crate) owner: u64,
    pub(crate) padding: Padding,
    pub(crate) be: Launch<B>,
    /// Record of the blocks of `be` that are left.
    pub(crate) record: B::Checkpoint,
}
