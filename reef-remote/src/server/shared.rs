//! A device and its dispatcher, as all sessions have them.

use reef_core::Dispatcher;
use reef_core::op::Operators;

#[derive(Debug)]
pub(super) struct Shared<D: Operators> {
    pub(super) device: D,
    pub(super) dispatcher: Dispatcher<D>,
    /// Clients may launch kernels with arguments of their own.
    pub(super) has_raw_launches: bool,
}
