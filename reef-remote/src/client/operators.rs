//! Networks: operations go to the server, which makes the launches.

use super::objects::{Buffer, Handle, Kernel, KernelSource};
use super::remote::Remote;
use crate::messages::{
    Ask, BUFFER, LAUNCHES, MAX_PIECE_LEN, Operation, Pack, PackInput, PackedSpec, Place, Prepare,
    Question, Shape, Stage, TensorCall,
};
use reef_core::dkp::Resources;
use reef_core::op::{Op, Operands, Operators, PackedInput, Scratch, Storage, TensorOperands};
use reef_core::rounding::{Rounded, Rounding};
use reef_core::tensor::TensorOp;
use reef_core::{Args, Launch, Result};
use reef_wire::little_endian::U64;
use serde::de::DeserializeOwned;
use std::sync::Arc;

impl Remote {
    /// Asks about an operation. Without a session the answer is the default, and whatever is done
    /// with it fails.
    fn ask<R: DeserializeOwned + Default>(&self, question: Question) -> R {
        self.0.ask(&Ask { question }).unwrap_or_default()
    }

    /// Sends numbers that the next message packs.
    fn stage(&self, parts: [&[f32]; 2]) -> Result<()> {
        let total: usize = parts.iter().map(|part| part.len() * 4).sum();
        for numbers in parts.iter().flat_map(|part| part.chunks(MAX_PIECE_LEN / 4)) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            self.0.post_hot(&Stage { total: U64::new(total as u64) }, &bytes)?;
        }
        Ok(())
    }

    fn prepare(&self, operation: Operation) -> Result<Vec<Launch<Self>>> {
        let (handle, shapes): (Handle, Vec<Shape>) =
            self.make(LAUNCHES, |id| Prepare { id, operation })?;
        let handle = Arc::new(handle);
        let launch = |(index, shape): (usize, Shape)| {
            let [threads, registers, shared] = shape.resources;
            let resources = Resources { threads, registers, shared };
            let kernel = Kernel(KernelSource::Prepared(handle.clone(), index as u32, resources));
            // SAFETY: the server made this launch by its device's `Operators`, whose launches are
            // sound whatever else uses their memory, and it keeps that memory. No argument of ours
            // reaches a kernel.
            #[allow(unsafe_code)]
            unsafe {
                Launch::new(kernel, shape.grid, shape.block, Args::default())
            }
        };
        Ok(shapes.into_iter().enumerate().map(launch).collect())
    }
}

fn place(storage: &Storage<'_, Remote>) -> Place {
    storage.buffer.expose();
    (storage.buffer.id(), storage.offset as u64)
}

fn call(op: &TensorOp, operands: &TensorOperands<'_, Remote>) -> TensorCall {
    TensorCall {
        op: op.clone(),
        inputs: operands.inputs.iter().map(place).collect(),
        output: place(&operands.output),
        packed: operands.packed,
        scratch: operands.scratch.as_ref().map(place),
    }
}

fn scratch([zeroed, bytes]: [u64; 2]) -> Scratch {
    Scratch { zeroed: zeroed as usize, bytes: bytes as usize }
}

impl Operators for Remote {
    fn pack(&self, op: &Op, weights: &[f32], bias: &[f32]) -> Result<Buffer> {
        self.stage([weights, bias])?;
        let (address, weights) = (self.0.address(0), weights.len() as u64);
        let (handle, ()) = self.make(BUFFER, |id| Pack { id, address, op: *op, weights })?;
        // Its form is the device's own, so nothing but the device touches its bytes.
        Ok(Buffer { handle: Arc::new(handle), address, bytes: 0, mirror: None })
    }

    fn scratch(&self, op: &Op, rounded: Rounded) -> Scratch {
        scratch(self.ask(Question::Scratch(*op, [rounded.input, rounded.output])))
    }

    fn rounding(&self, op: &Op) -> Rounding {
        let [input, output, keeps] = self.ask(Question::Rounding(*op));
        Rounding { input, output, keeps }
    }

    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        self.prepare(Operation::Picture {
            op: *op,
            input: place(&operands.input),
            residual: operands.residual.as_ref().map(place),
            output: place(&operands.output),
            constants: operands.constants.map(Buffer::id),
            scratch: operands.scratch.as_ref().map(place),
            rounded: [operands.rounded.input, operands.rounded.output],
        })
    }

    fn tensor_scratch(&self, op: &TensorOp) -> Scratch {
        scratch(self.ask(Question::TensorScratch(op.clone())))
    }

    fn tensor_operator(
        &self,
        op: &Arc<TensorOp>,
        operands: &TensorOperands<'_, Self>,
    ) -> Result<Vec<Launch<Self>>> {
        self.prepare(Operation::Tensors { ops: vec![call(op, operands)], is_group: false })
    }

    fn grouped(&self, ops: &[&TensorOp]) -> usize {
        let ops: Vec<TensorOp> = ops.iter().map(|&op| op.clone()).collect();
        (self.ask::<u64>(Question::Grouped(ops)) as usize).max(1)
    }

    fn tensor_group(
        &self,
        ops: &[(&Arc<TensorOp>, TensorOperands<'_, Self>)],
    ) -> Result<Vec<Launch<Self>>> {
        let ops = ops.iter().map(|(op, operands)| call(op, operands)).collect();
        self.prepare(Operation::Tensors { ops, is_group: true })
    }

    fn packed_input(&self, op: &TensorOp) -> Option<PackedInput> {
        self.ask::<Option<PackedSpec>>(Question::PackedInput(op.clone())).map(Into::into)
    }

    fn pack_input(&self, packed: &PackedInput, values: &[f32]) -> Result<Buffer> {
        self.stage([values, &[]])?;
        let (address, packed) = (self.0.address(0), (*packed).into());
        let (handle, ()) = self.make(BUFFER, |id| PackInput { id, address, packed })?;
        Ok(Buffer { handle: Arc::new(handle), address, bytes: 0, mirror: None })
    }

    fn has_joined(&self, op: &TensorOp) -> bool {
        self.ask(Question::HasJoined(op.clone()))
    }

    fn rounds_to_halves(&self, op: &TensorOp, input: usize) -> bool {
        self.ask(Question::RoundsToHalves(op.clone(), input as u64))
    }

    fn takes_halves(&self, op: &TensorOp) -> bool {
        self.ask(Question::TakesHalves(op.clone()))
    }
}
