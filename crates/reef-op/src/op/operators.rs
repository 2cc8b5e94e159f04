//! The `Operators` trait: a device with kernels for networks.

use super::operands::{Operands, PackedInput, Scratch, TensorOperands};
use super::ops::Op;
use super::quantized::{Format, Quantization};
use crate::op::rounding::{Rounded, Rounding};
use crate::op::source::Program;
use crate::tensor::op::TensorOp;
use reef_core::{Device, Error, Launch, Result};
use std::sync::Arc;

/// A device that has kernels for neural networks.
pub trait Operators: Device {
    /// Brings weights and bias onto the device in whatever form its kernels want.
    ///
    /// One packed buffer serves any number of instances of the network, for any batch, rows and
    /// columns that have as many weights.
    ///
    /// # Errors
    ///
    /// `Invalid` if the lengths are not [`Op::constants`]; `OutOfMemory`; `Unsupported` as of
    /// [`operator`](Self::operator).
    fn pack(&self, op: &Op, weights: &[f32], bias: &[f32]) -> Result<Self::Buffer>;

    /// Returns the memory that [`operator`](Self::operator) needs for `op` in addition to operands
    /// of which these are `rounded`.
    fn scratch(&self, _op: &Op, _rounded: Rounded) -> Scratch {
        Scratch::default()
    }

    /// Returns the rounding of this device's kernels for `op`. The default is none.
    fn rounding(&self, _op: &Op) -> Rounding {
        Rounding::default()
    }

    /// Returns the tensors of `op` that this device's kernels take with numbers of 8 bits of
    /// `format`, whatever its layouts are. The default is none.
    ///
    /// [`pack`](Self::pack) and [`operator`](Self::operator) must refuse all others as
    /// `Unsupported`.
    fn quantization(&self, _op: &Op, _format: Format) -> Quantization {
        Quantization::default()
    }

    /// The launches, in order, that compute `op` on these operands.
    ///
    /// The launches keep all buffers alive. Run them on one queue at a time, and don't copy or
    /// write their operands meanwhile: what comes out of that is unspecified, though memory stays
    /// sound.
    ///
    /// # Errors
    ///
    /// `Invalid` if shapes contradict each other, a storage is too small, or the output overlaps
    /// what is read; `Unsupported` names an op that the device has no kernel for.
    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>>;

    /// Returns the number of `ops`, from the first on, that are best run as one by
    /// [`operator_group`](Self::operator_group), at least 2, and the scratch memory that these need
    /// together. `None` is the default: each by itself. No operation reads or writes what another
    /// writes. Next to each is what of its operands is rounded.
    fn grouped_operators(&self, _ops: &[(&Op, Rounded)]) -> Option<(usize, Scratch)> {
        None
    }

    /// The launches, in order, that compute several operations, none of whose outputs overlaps what
    /// another reads or writes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`operator`](Self::operator).
    fn operator_group(&self, ops: &[(&Op, Operands<'_, Self>)]) -> Result<Vec<Launch<Self>>> {
        let each = ops.iter().map(|(op, operands)| self.operator(op, operands));
        Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// The launches of several groups, each as [`operator_group`](Self::operator_group) gives them.
    /// A device of another machine makes them all in one round trip.
    ///
    /// # Errors
    ///
    /// Returns the error of the first group that has one.
    fn operator_groups(
        &self,
        groups: &[Vec<(&Op, Operands<'_, Self>)>],
    ) -> Result<Vec<Vec<Launch<Self>>>> {
        groups.iter().map(|ops| self.operator_group(ops)).collect()
    }

    /// Says that questions about these operations follow: a device of another machine answers them
    /// all in one round trip. The default does nothing.
    fn foresee(&self, _ops: &[&Op]) {}

    /// As [`foresee`](Self::foresee), for operations on tensors.
    fn foresee_tensors(&self, _ops: &[&TensorOp]) {}

    /// Returns the memory that [`tensor_operator`](Self::tensor_operator) needs for `op` in
    /// addition to its operands.
    fn tensor_scratch(&self, _op: &TensorOp) -> Scratch {
        Scratch::default()
    }

    /// The launches, in order, that compute an operation on tensors of any rank and type.
    ///
    /// The rules of [`operator`](Self::operator)'s launches hold for these. The default is an
    /// error: the device has none.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`operator`](Self::operator).
    fn tensor_operator(
        &self,
        op: &Arc<TensorOp>,
        operands: &TensorOperands<'_, Self>,
    ) -> Result<Vec<Launch<Self>>> {
        let (name, kind) = (self.info().name, op.name());
        let what = format!("{name} has no kernel for {kind} of {} tensors", operands.inputs.len());
        Err(Error::Unsupported { backend: "device", what })
    }

    /// Returns the number of `ops`, from the first on, that are best run as one by
    /// [`tensor_group`](Self::tensor_group). None of them reads what another writes. The default is
    /// 1: each by itself.
    fn grouped(&self, _ops: &[&TensorOp]) -> usize {
        1
    }

    /// The launches, in order, that compute several operations, none of whose outputs overlaps what
    /// another reads or writes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`tensor_operator`](Self::tensor_operator).
    fn tensor_group(
        &self,
        ops: &[(&Arc<TensorOp>, TensorOperands<'_, Self>)],
    ) -> Result<Vec<Launch<Self>>> {
        let each = ops.iter().map(|(op, operands)| self.tensor_operator(op, operands));
        Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// The launches of several groups, each as [`tensor_group`](Self::tensor_group) gives them. A
    /// device of another machine makes them all in one round trip.
    ///
    /// # Errors
    ///
    /// Returns the number of the first group that has an error, and the error.
    fn tensor_groups(
        &self,
        groups: &[Vec<(&Arc<TensorOp>, TensorOperands<'_, Self>)>],
    ) -> Result<Vec<Vec<Launch<Self>>>, (usize, Error)> {
        let group = |(at, ops): (usize, &Vec<_>)| self.tensor_group(ops).map_err(|e| (at, e));
        groups.iter().enumerate().map(group).collect()
    }

    /// Returns the input of `op` that this device's kernels want in a form of their own, if its
    /// values never change. The default is none: all inputs are taken unchanged.
    fn packed_input(&self, _op: &TensorOp) -> Option<PackedInput> {
        None
    }

    /// Brings the values of an input onto the device in the form of the kernels that gave `packed`.
    ///
    /// # Errors
    ///
    /// `Invalid` if there are not as many values; `OutOfMemory`.
    fn pack_input(&self, packed: &PackedInput, _values: &[f32]) -> Result<Self::Buffer> {
        Err(Error::invalid("packed", format!("{} cannot pack {packed:?}", self.info().name)))
    }

    /// Returns whether [`tensor_operator`](Self::tensor_operator) has this operation, which is made
    /// of several that the device has in any case: attention, a sum with its formula, a formula of
    /// rows, a convolution between numbers of 8 bits, whose weights are packed. With the default,
    /// `false`, the device gets those instead.
    fn has_joined(&self, _op: &TensorOp) -> bool {
        false
    }

    /// Returns whether this device's kernel for `op` rounds the values of an input to halves before
    /// anything else, with its [packed input](Self::packed_input) packed. Stored as halves that
    /// input gives the same outputs, bit by bit.
    fn rounds_to_halves(&self, _op: &TensorOp, _input: usize) -> bool {
        false
    }

    /// Returns whether it has a kernel made for `op`, some of whose inputs or whose output are
    /// halves where they were singles, with its packed input packed. The default is `false`.
    fn takes_halves(&self, _op: &TensorOp) -> bool {
        false
    }

    /// Returns the kernel of each call of a program, compiled for this device and loaded: a kernel
    /// that several calls have is loaded once. The default is an error: the device runs none.
    ///
    /// Must give, for each call, the kernel that it names, from the file that it names.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the device runs no source of GPUs, `Invalid` with the compiler's messages,
    /// `NotFound` without a compiler or for a kernel that is not in the source.
    fn program_kernels(&self, _program: &Program) -> Result<Vec<Self::Kernel>> {
        let what = format!("{}: kernels that come as source run on GPUs alone", self.info().name);
        Err(Error::Unsupported { backend: Self::NAME, what })
    }
}
