//! State of one sequence.

use crate::engine::call::ProcessId;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::budget::{Budget, Reservation};
use crate::models::shaped::variant::Variant;
use crate::models::state::spec::StateTensor;
use crate::requests::device_memory::{DeviceMemory, DeviceSlice};
use crate::requests::job::{BoundOutput, Output};
use crate::tenants::tenant::{MemoryReservation, Tenant};
use std::sync::Arc;

/// State of one sequence.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    /// State after its last request; `None` before its first one.
    state: Option<Vec<StateValue>>,
    /// Buffers of the state before, for the next request.
    spare: Vec<StateBuffer>,
    /// Process that keeps its state, for a program; `None` before its first request.
    process: Option<ProcessId>,
}

/// A state tensor on the device.
#[derive(Debug)]
struct StateValue {
    buffer: StateBuffer,
    shape: Vec<i64>,
    bytes: usize,
}

/// Device memory that holds a state tensor, and may be larger.
#[derive(Debug)]
pub(crate) struct StateBuffer {
    memory: DeviceMemory,
    bytes: usize,
    _reserved: Reservation,
    _charged: MemoryReservation,
}

/// Size of a buffer that the state of a request lacks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateSize {
    bytes: usize,
    /// Bytes that are enough for some later requests as well.
    with_growth: usize,
}

/// Owner of state buffers, with limits.
pub(crate) struct StateMemory {
    pub(crate) node: Arc<Node>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) tenant: Arc<Tenant>,
    /// Maximum bytes of the tenant.
    pub(crate) max: u64,
}

impl StateMemory {
    /// Allocates buffers of these sizes, without growth where memory is short. Blocks.
    ///
    /// # Errors
    ///
    /// `Exhausted`; errors of the device.
    pub(crate) fn alloc(&self, sizes: &[StateSize]) -> Result<Vec<StateBuffer>> {
        let alloc = |bytes: fn(&StateSize) -> usize| {
            sizes.iter().map(|size| self.buffer(bytes(size))).collect::<Result<Vec<_>>>()
        };
        match alloc(|size| size.with_growth) {
            Err(Error::Exhausted(_)) => alloc(|size| size.bytes),
            made => made,
        }
    }

    fn buffer(&self, bytes: usize) -> Result<StateBuffer> {
        let bytes = bytes.max(1); // not every device allocates nothing
        let reserved = self.budget.reserve("the state of a sequence", bytes as u64)?;
        let charged = self.tenant.take_memory(bytes as u64, self.max)?;
        let memory = DeviceMemory::alloc(&self.node, bytes)?;
        Ok(StateBuffer { memory, bytes, _reserved: reserved, _charged: charged })
    }
}

/// State that a request writes.
#[derive(Debug)]
pub(crate) struct NextState(Vec<StateValue>);

impl Sequence {
    /// True once a request has made its state.
    pub(crate) fn is_started(&self) -> bool {
        self.state.is_some() || self.process.is_some()
    }

    /// Returns the process that keeps its state; `None` before the first request.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        self.process
    }

    /// Takes the process that has run a request.
    pub(crate) fn set_process(&mut self, process: Option<ProcessId>) {
        self.process = process;
    }

    /// Returns shape and memory of each state input; `None` before the first request.
    pub(crate) fn inputs(&self) -> Option<Vec<(Vec<i64>, DeviceSlice)>> {
        let state = self.state.as_ref()?;
        Some(state.iter().map(|value| (value.shape.clone(), value.slice())).collect())
    }

    /// Returns the sizes of the buffers that the state of a request of `variant` lacks.
    pub(crate) fn missing(&self, tensors: &[StateTensor], variant: &Variant) -> Vec<StateSize> {
        let missing = tensors.iter().enumerate().filter_map(|(at, tensor)| {
            let bytes = variant.outputs.each[tensor.output].bytes();
            match self.spare.get(at) {
                Some(spare) if spare.bytes >= bytes => None,
                // It grows from request to request.
                Some(_) => Some(StateSize { bytes, with_growth: bytes.saturating_mul(2) }),
                None => Some(StateSize { bytes, with_growth: bytes }),
            }
        });
        missing.collect()
    }

    /// Returns memory for the state of a request of `variant`: spare buffers, and `fresh` ones for
    /// those that are [missing](Self::missing).
    pub(crate) fn next(
        &mut self,
        tensors: &[StateTensor],
        variant: &Variant,
        fresh: Vec<StateBuffer>,
    ) -> NextState {
        // If this request is abandoned, no other one uses what it still writes to.
        let mut spare = std::mem::take(&mut self.spare).into_iter();
        let mut fresh = fresh.into_iter();
        let next = tensors.iter().filter_map(|tensor| {
            let info = &variant.outputs.each[tensor.output];
            let (bytes, shape) = (info.bytes(), info.shape.clone());
            let spare = spare.next().filter(|spare| spare.bytes >= bytes);
            let buffer = spare.or_else(|| fresh.next())?;
            Some(StateValue { buffer, shape, bytes })
        });
        NextState(next.collect())
    }

    /// Takes the state that a request has written.
    pub(crate) fn advance(&mut self, next: NextState) {
        let before = self.state.replace(next.0);
        self.spare = before.into_iter().flatten().map(|value| value.buffer).collect();
    }

    /// Forgets its state.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }
}

impl StateValue {
    fn slice(&self) -> DeviceSlice {
        let (memory, region) = (self.buffer.memory.clone(), "state of a sequence".into());
        DeviceSlice { memory, begin: 0, bytes: self.bytes, region }
    }
}

impl NextState {
    /// Returns the outputs that go there.
    pub(crate) fn outputs(&self, tensors: &[StateTensor], variant: &Variant) -> Vec<BoundOutput> {
        let bound = |(tensor, value): (&StateTensor, &StateValue)| BoundOutput {
            index: tensor.output,
            offset: variant.outputs.each[tensor.output].offset,
            bytes: value.bytes,
            size: None,
            output: Output::Device(value.slice()),
        };
        tensors.iter().zip(&self.0).map(bound).collect()
    }
}
