//! An operation with its operands, checked.

use super::plan::Plan;
use crate::driver::buffer::Buffer;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::operand::check_offset;
use reef_core::{Error, Result};
use reef_op::tensor::{Domain, Spec, TensorOp, View};
use reef_op::{Storage, TensorOperands};
use std::borrow::Cow;
use std::ops::{Deref, Range};

/// Threads of a block: `THREADS` in kernels/plan.h.
pub(super) const THREADS: usize = 256;
/// Bytes of dynamic shared memory at most: with what guards and folds take, all that a launch has
/// without asking for more.
pub(super) const SHARED: usize = 47 << 10;
/// Elements of one tensor, so that kernels can count in 31 bits.
const MAX_ELEMENTS: usize = 1 << 31;

/// An operation as its kernels see it.
#[derive(Debug, Clone)]
pub(super) struct KernelOp<'a> {
    op: Cow<'a, TensorOp>,
    /// An input is packed, and the operation one on that.
    pub(super) is_packed: bool,
}

impl<'a> KernelOp<'a> {
    pub(super) fn as_it_is(op: &'a TensorOp) -> Self {
        Self { op: Cow::Borrowed(op), is_packed: false }
    }
}

impl KernelOp<'static> {
    /// `op` is an operation on a packed input.
    pub(super) fn on_packed(op: TensorOp) -> Self {
        Self { op: Cow::Owned(op), is_packed: true }
    }
}

impl Deref for KernelOp<'_> {
    type Target = TensorOp;

    fn deref(&self) -> &TensorOp {
        &self.op
    }
}

/// An operation with its operands, checked.
#[derive(Debug)]
pub(super) struct BoundTensors<'a, V: Vendor> {
    gpu: &'a Gpu<V>,
    pub(super) op: KernelOp<'a>,
    /// Addresses.
    inputs: Vec<u64>,
    output: u64,
    scratch: Option<(Buffer<V>, usize)>,
    /// Buffers that the launch keeps alive.
    buffers: Vec<Buffer<V>>,
}

impl<'a, V: Vendor> BoundTensors<'a, V> {
    pub(super) fn new(
        gpu: &'a Gpu<V>,
        op: KernelOp<'a>,
        operands: &TensorOperands<'_, Gpu<V>>,
    ) -> Result<Self> {
        op.check()?;
        let (given, want) = (operands.inputs.len(), op.inputs.len());
        if given != want {
            let argument = format!("inputs of {}", op.name());
            return Err(Error::invalid(argument, format!("must be {want}, got {given}")));
        }
        let inputs = operands.inputs.iter().zip(&op.inputs);
        let scratch = operands.scratch.as_ref();
        scratch.map_or(Ok(()), check_offset)?;
        let storages = operands.inputs.iter().chain([&operands.output]).chain(scratch);
        let bound = Self {
            gpu,
            inputs: inputs
                .map(|(storage, spec)| address(&op, storage, spec))
                .collect::<Result<_>>()?,
            output: address(&op, &operands.output, &op.output)?,
            scratch: scratch.map(|storage| (storage.buffer.clone(), storage.offset)),
            buffers: storages.map(|storage| storage.buffer.clone()).collect(),
            op,
        };
        bound.buffers.iter().try_for_each(|buffer| buffer.check_device(gpu.context()))?;
        bound.check_apart()?;
        Ok(bound)
    }

    /// Blocks write their parts of the output while others read, so nothing that is read may lie in
    /// it.
    fn check_apart(&self) -> Result<()> {
        if self.read().any(|read| meet(&read, &self.written())) {
            Err(Error::invalid("output", "cannot overlap what is read"))
        } else {
            Ok(())
        }
    }

    /// Checks that nothing that `others` read or write lies in the output, as they run meanwhile.
    pub(super) fn check_next_to<'b>(&self, others: impl Iterator<Item = &'b Self>) -> Result<()>
    where
        Self: 'b,
    {
        let used = |other: &'b Self| other.read().chain([other.written()]);
        if others.flat_map(used).any(|used| meet(&used, &self.written())) {
            Err(Error::invalid("outputs", "cannot overlap"))
        } else {
            Ok(())
        }
    }

    fn written(&self) -> Range<u64> {
        addresses(self.output, &self.op.output)
    }

    fn read(&self) -> impl Iterator<Item = Range<u64>> {
        self.inputs.iter().zip(&self.op.inputs).map(|(&start, spec)| addresses(start, spec))
    }

    /// Number of elements that `view`, which may see one of them often, has of one output.
    pub(super) fn len(&self, view: &View) -> Result<u32> {
        let len = u32::try_from(view.len()).ok().filter(|len| *len < MAX_ELEMENTS as u32);
        len.ok_or_else(|| self.refused(format!("{} elements for one output", view.len())))
    }

    pub(super) fn gpu(&self) -> &Gpu<V> {
        self.gpu
    }

    /// Address of an input.
    pub(super) fn input(&self, number: usize) -> u64 {
        self.inputs[number]
    }

    /// Address of the output.
    pub(super) fn output(&self) -> u64 {
        self.output
    }

    /// Address of scratch memory of this size; 0 if `bytes` is 0.
    pub(super) fn scratch(&self, bytes: usize) -> Result<u64> {
        match &self.scratch {
            _ if bytes == 0 => Ok(0),
            Some((buffer, offset)) => buffer.range(*offset, bytes),
            None => Err(Error::invalid("scratch", format!("must have {bytes} bytes, got none"))),
        }
    }

    /// Number of outputs.
    pub(super) fn count(&self) -> usize {
        self.op.output.elements()
    }

    /// Units that best-effort work of the device runs on.
    pub(super) fn units(&self) -> usize {
        self.gpu.facts().be_units as usize
    }

    /// Appends all inputs to a plan.
    pub(super) fn inputs(&self, plan: &mut Plan) {
        for (&address, spec) in self.inputs.iter().zip(&self.op.inputs) {
            plan.input(address, spec.element);
        }
    }

    /// Says that the device has no kernel for this.
    pub(super) fn refused(&self, why: impl std::fmt::Display) -> Error {
        refused::<V>(&self.op, why)
    }

    /// The domain of a kernel that adds and multiplies: unsigned integers are signed ones.
    pub(super) fn signed(&self, domain: Domain) -> Result<Domain> {
        let mut specs = self.op.inputs.iter().chain([&self.op.output]);
        match domain {
            Domain::U64 if specs.any(|spec| spec.element.is_float()) => {
                Err(self.refused("floats as unsigned integers"))
            }
            Domain::U64 => Ok(Domain::I64),
            other => Ok(other),
        }
    }

    /// Buffers that a launch keeps alive.
    pub(super) fn buffers(&self) -> impl Iterator<Item = Buffer<V>> {
        self.buffers.iter().cloned()
    }
}

fn addresses(start: u64, spec: &Spec) -> Range<u64> {
    start..start + spec.bytes() as u64
}

/// Returns whether two ranges of addresses have some in common.
pub(super) fn meet(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

/// Says that a device of this vendor has no kernel for an operation.
pub(super) fn refused<V: Vendor>(op: &TensorOp, why: impl std::fmt::Display) -> Error {
    Error::Unsupported { backend: V::NAME, what: format!("{}: {why}", op.name()) }
}

/// Address of a tensor, which must lie inside of its buffer.
fn address<V: Vendor>(op: &TensorOp, storage: &Storage<'_, Gpu<V>>, spec: &Spec) -> Result<u64> {
    if spec.elements() >= MAX_ELEMENTS {
        return Err(refused::<V>(op, format!("{spec} has 2^31 elements or more")));
    }
    let address = storage.buffer.range(storage.offset, spec.bytes())?;
    if address.is_multiple_of(spec.element.bytes() as u64) {
        Ok(address)
    } else {
        let (size, offset) = (spec.element.bytes(), storage.offset);
        Err(Error::invalid(
            "offset",
            format!("must be aligned to {size} bytes for {spec}, got {offset}"),
        ))
    }
}

/// Suffix of the names of kernels of a domain.
pub(super) fn suffix(domain: Domain) -> &'static str {
    match domain {
        Domain::F32 => "f32",
        Domain::F64 => "f64",
        Domain::I64 => "i64",
        Domain::U64 => "u64",
    }
}

/// Bytes of a number of a domain.
pub(super) fn bytes(domain: Domain) -> usize {
    if domain == Domain::F32 { 4 } else { 8 }
}
