//! Turns operations of networks into launches.

use crate::hardware::cpu::Cpu;
use crate::kernel::Kernel;
use crate::kernels::blocks::operand_layout::OperandMemory;
use crate::kernels::images::build::build;
use crate::kernels::images::pack::pack;
use crate::kernels::tensor::bind::{BoundOperands, bind, has_joined, packed_input};
use crate::kernels::tensor::products::layers;
use crate::memory::borrow::Access;
use crate::memory::buffer::Buffer;
use reef_core::{Args, Device, Launch, Result};
use reef_op::tensor::TensorOp;
use reef_op::{Op, Operands, Operators, PackedInput, Storage, TensorOperands};
use std::iter;
use std::sync::Arc;

impl Operators for Cpu {
    fn pack(&self, op: &Op, weights: &[f32], bias: &[f32]) -> Result<Buffer> {
        pack(op, weights, bias)
    }

    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        let made = build(
            op,
            place(&operands.input),
            operands.residual.as_ref().map(place),
            place(&operands.output),
            operands.constants.cloned(),
            self.info().units,
        )?;
        Ok(made
            .into_iter()
            .map(|(kernel, blocks)| launch(kernel.using(uses(operands)), blocks))
            .collect())
    }

    fn tensor_operator(
        &self,
        op: &Arc<TensorOp>,
        operands: &TensorOperands<'_, Self>,
    ) -> Result<Vec<Launch<Self>>> {
        let TensorOperands { inputs, output, packed, .. } = operands;
        let (places, written) = (inputs.iter().map(place).collect::<Vec<_>>(), place(output));
        let places = BoundOperands { inputs: &places, output: &written, packed: *packed };
        let (kernel, blocks) = bind(op, &places, self.info().units)?;
        let written = iter::once((output.buffer.clone(), Access::Write));
        let read = inputs.iter().map(|input| (input.buffer.clone(), Access::Read));
        Ok(vec![launch(kernel.using(written.chain(read).collect()), blocks)])
    }

    fn packed_input(&self, op: &TensorOp) -> Option<PackedInput> {
        packed_input(op)
    }

    fn pack_input(&self, packed: &PackedInput, values: &[f32]) -> Result<Buffer> {
        layers::pack(packed, values)
    }

    fn has_joined(&self, op: &TensorOp) -> bool {
        has_joined(op)
    }
}

/// Buffers that each block of an operation works on, the output first.
fn uses(operands: &Operands<'_, Cpu>) -> Vec<(Buffer, Access)> {
    let read = [
        Some(operands.input.buffer),
        operands.residual.as_ref().map(|r| r.buffer),
        operands.constants,
    ];
    let output = (operands.output.buffer.clone(), Access::Write);
    iter::once(output)
        .chain(read.into_iter().flatten().map(|b| (b.clone(), Access::Read)))
        .collect()
}

fn place(storage: &Storage<'_, Cpu>) -> OperandMemory {
    OperandMemory { buffer: storage.buffer.clone(), offset: storage.offset }
}

fn launch(kernel: Kernel, blocks: u32) -> Launch<Cpu> {
    // SAFETY: these kernels take no arguments, own their buffers and borrow them while a block
    // runs, and their blocks write disjoint parts of the output.
    unsafe { Launch::new(kernel, [blocks, 1, 1], [1, 1, 1], Args::default()) }
}
