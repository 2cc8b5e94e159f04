//! A device, and its dispatcher if sessions share it.

use reef_core::Dispatcher;
use reef_core::op::Operators;

#[derive(Debug)]
pub(super) struct Shared<D: Operators> {
    pub(super) device: D,
    /// `None`: the device is the only session's, and its lanes are hardware queues.
    pub(super) dispatcher: Option<Dispatcher<D>>,
    /// Clients may launch kernels with arguments of their own.
    pub(super) has_raw_launches: bool,
}
