//! Networks: operations go to the server, which makes the launches.

use super::objects::{Buffer, Handle, Kernel, KernelSource};
use super::remote::Remote;
use crate::error::RemoteError;
use crate::messages::{
    Ask, BUFFER, LAUNCHES, MAX_PIECE_LEN, Operation, Pack, PackInput, PackedSpec, Prepare,
    PrepareEach, Question, Shape, Stage, StorageStart, TensorCall,
};
use reef_core::dkp::Resources;
use reef_core::{Args, Error, Launch, Result};
use reef_op::rounding::{Rounded, Rounding};
use reef_op::tensor::TensorOp;
use reef_op::{
    Format, Op, Operands, Operators, PackedInput, Quantization, Scratch, Storage, TensorOperands,
};
use reef_wire::Cold;
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
        let (handle, shapes) = self.make(LAUNCHES, |id| Prepare { id, operation })?;
        Ok(self.launches(handle, shapes))
    }

    /// As [`prepare`](Self::prepare) of each, in messages of some operations.
    ///
    /// # Errors
    ///
    /// The number of the first operation that has an error, and that.
    fn prepare_each(
        &self,
        operations: impl Iterator<Item = Operation>,
    ) -> Result<Vec<Vec<Launch<Self>>>, (usize, Error)> {
        let (mut operations, mut made) = (operations.peekable(), Vec::new());
        while operations.peek().is_some() {
            let some = operations.by_ref().take(MAX_PREPARED);
            let each: Vec<_> = some.map(|operation| (self.0.mint(LAUNCHES), operation)).collect();
            let ids: Vec<_> = each.iter().map(|(id, _)| *id).collect();
            let each = each.into_iter().map(|(id, operation)| (id.bits(), operation)).collect();
            let before = made.len();
            let reply: Result<PreparedEach> = self.0.call_unlatched(&PrepareEach { each });
            let shapes = match reply {
                Ok(Ok(shapes)) if shapes.len() == ids.len() => shapes,
                other => {
                    ids.into_iter().for_each(|id| self.0.release(id)); // they were not made
                    return Err(match other {
                        Ok(Err((at, error))) => (before + at as usize, error.into()),
                        Ok(Ok(_)) => (before, Error::invalid("reply", "is of another length")),
                        Err(error) => (before, error),
                    });
                }
            };
            for (id, shapes) in ids.into_iter().zip(shapes) {
                made.push(self.launches(Handle { connection: self.0.clone(), id }, shapes));
            }
        }
        Ok(made)
    }

    fn launches(&self, handle: Handle, shapes: Vec<Shape>) -> Vec<Launch<Self>> {
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
        shapes.into_iter().enumerate().map(launch).collect()
    }

    /// Packs what was staged. The next call of the session waits for the reply.
    fn pack_staged<M: Cold>(&self, pack: impl FnOnce(u64, u64) -> M) -> Result<Buffer> {
        let (address, id) = (self.0.address(0), self.0.mint(BUFFER));
        if let Err(error) = self.0.begin_making(id, &pack(id.bits(), address)) {
            self.0.release(id);
            return Err(error);
        }
        // Its form is the device's own, so nothing but the device touches its bytes.
        let handle = Arc::new(Handle { connection: self.0.clone(), id });
        Ok(Buffer { handle, address, bytes: 0, mirror: None })
    }
}

/// Shapes of each operation's launches, or the number of the first operation with an error.
type PreparedEach = Result<Vec<Vec<Shape>>, (u64, RemoteError)>;

/// Maximum number of operations of a message.
const MAX_PREPARED: usize = 256;

fn image(op: &Op, operands: &Operands<'_, Remote>) -> Operation {
    Operation::Image {
        op: *op,
        input: place(&operands.input),
        residual: operands.residual.as_ref().map(place),
        output: place(&operands.output),
        constants: operands.constants.map(Buffer::id),
        scratch: operands.scratch.as_ref().map(place),
        rounded: [operands.rounded.input, operands.rounded.output],
    }
}

fn group(ops: &[(&Arc<TensorOp>, TensorOperands<'_, Remote>)]) -> Operation {
    let ops = ops.iter().map(|(op, operands)| call(op, operands)).collect();
    Operation::Tensors { ops, is_group: true }
}

fn place(storage: &Storage<'_, Remote>) -> StorageStart {
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
        op.check()?;
        let [want_weights, want_bias] = op.constants();
        if [weights.len(), bias.len()] != [want_weights, want_bias] {
            return Err(Error::invalid(
                "constants",
                format!(
                    "must be {want_weights} weights and {want_bias} biases, got {} and {}",
                    weights.len(),
                    bias.len()
                ),
            ));
        }
        self.stage([weights, bias])?;
        let weights = weights.len() as u64;
        self.pack_staged(|id, address| Pack { id, address, op: *op, weights })
    }

    fn foresee(&self, ops: &[&Op]) {
        let scratch = [[false, false], [false, true], [true, false], [true, true]];
        let about = |op: &&Op| {
            let op = **op;
            scratch
                .map(|rounded| Question::Scratch(op, rounded))
                .into_iter()
                .chain([Question::Rounding(op)])
                .chain(Format::ALL.map(|format| Question::Quantization(op, format)))
        };
        self.0.ask_each(ops.iter().flat_map(about));
    }

    fn foresee_tensors(&self, ops: &[&TensorOp]) {
        let about = |op: &&TensorOp| {
            let op: &TensorOp = op;
            let rounds = |input| Question::RoundsToHalves(op.clone(), input as u64);
            let inputs = (0..op.inputs.len()).map(rounds);
            let facts = [
                Question::HasJoined,
                Question::PackedInput,
                Question::TakesHalves,
                Question::TensorScratch,
            ];
            facts.map(|question| question(op.clone())).into_iter().chain(inputs).collect::<Vec<_>>()
        };
        self.0.ask_each(ops.iter().flat_map(about));
    }

    fn scratch(&self, op: &Op, rounded: Rounded) -> Scratch {
        scratch(self.ask(Question::Scratch(*op, [rounded.input, rounded.output])))
    }

    fn rounding(&self, op: &Op) -> Rounding {
        let [input, output, keeps] = self.ask(Question::Rounding(*op));
        Rounding { input, output, keeps }
    }

    fn quantization(&self, op: &Op, format: Format) -> Quantization {
        let [input, output, keeps] = self.ask(Question::Quantization(*op, format));
        Quantization { input, output, keeps }
    }

    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        self.prepare(image(op, operands))
    }

    fn operator_groups(
        &self,
        groups: &[Vec<(&Op, Operands<'_, Self>)>],
    ) -> Result<Vec<Vec<Launch<Self>>>> {
        let each = groups.iter().flatten().map(|(op, operands)| image(op, operands));
        let mut made = self.prepare_each(each).map_err(|(_, error)| error)?.into_iter();
        Ok(groups.iter().map(|ops| made.by_ref().take(ops.len()).flatten().collect()).collect())
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
        self.prepare(group(ops))
    }

    fn tensor_groups(
        &self,
        groups: &[Vec<(&Arc<TensorOp>, TensorOperands<'_, Self>)>],
    ) -> Result<Vec<Vec<Launch<Self>>>, (usize, Error)> {
        self.prepare_each(groups.iter().map(|ops| group(ops)))
    }

    fn packed_input(&self, op: &TensorOp) -> Option<PackedInput> {
        self.ask::<Option<PackedSpec>>(Question::PackedInput(op.clone())).map(Into::into)
    }

    fn pack_input(&self, packed: &PackedInput, values: &[f32]) -> Result<Buffer> {
        self.stage([values, &[]])?;
        let packed = (*packed).into();
        self.pack_staged(|id, address| PackInput { id, address, packed })
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
