//! One operator with operands, its blocks, and what they should write.

use super::reference::{Random, compute, indices};
use crate::kernel::{Block, Kernel, Outcome, RUN};
use crate::kernels::blocks::operand::is_planar;
use crate::kernels::blocks::operand_layout::OperandMemory;
use crate::kernels::images::build::build;
use crate::kernels::images::pack::pack;
use crate::memory::buffer::Buffer;
use reef_core::Args;
use reef_op::{Op, Tensor};
use std::sync::atomic::AtomicU8;

/// Content of storages outside of their tensors.
const UNTOUCHED: f32 = 12345.0;

/// An operator with random operands.
pub(super) struct Case {
    pub(super) op: Op,
    pub(super) kernels: Vec<(Kernel, u32)>,
    pub(super) output: OperandMemory,
    pub(super) want: Vec<f64>,
}

/// A storage, 64 bytes into its buffer, with `values` in the tensor's channels.
fn store(tensor: &Tensor, values: &[f32]) -> OperandMemory {
    let len = tensor.storage_elements() + 16;
    let place = OperandMemory { buffer: Buffer::zeroed(len * 4).unwrap(), offset: 64 };
    let all = floats(&place.buffer);
    all.fill(UNTOUCHED);
    for (index, value) in indices(tensor).zip(values) {
        all[16 + position(tensor, index)] = *value;
    }
    place
}

#[expect(clippy::mut_from_ref, reason = "tests look at buffers only while no block runs")]
pub(super) fn floats(buffer: &Buffer) -> &mut [f32] {
    // SAFETY: the buffer is that long, aligned and initialised, and no block runs meanwhile.
    unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr().cast(), buffer.bytes() / 4) }
}

/// Place of an element in its storage.
pub(super) fn position(of: &Tensor, [n, c, y, x]: [usize; 4]) -> usize {
    let c = of.first + c;
    if is_planar(of) {
        ((n * of.of + c) * of.height + y) * of.width + x
    } else {
        ((n * of.height + y) * of.width + x) * of.of + c
    }
}

impl Case {
    pub(super) fn new(op: Op, random: &mut Random) -> Self {
        Self::of(op, random, |_, _| ())
    }

    /// A case with `change` applied to its inputs.
    pub(super) fn of(
        op: Op,
        random: &mut Random,
        change: impl Fn(&mut [f32], &mut Random),
    ) -> Self {
        let mut input = random.floats(op.input().elements());
        if matches!(op, Op::Activate(_)) {
            input.iter_mut().for_each(|x| *x *= 9.0); // beyond both bounds
        }
        change(&mut input, random);
        let [weights, bias] = op.constants().map(|len| random.floats(len));
        let second = op.second().copied();
        let mut residual =
            second.map(|tensor| random.floats(tensor.elements())).unwrap_or_default();
        change(&mut residual, random);
        let want = compute(&op, &input, &residual, [&weights, &bias]);

        let output = store(op.output(), &[]);
        let constants = (!bias.is_empty()).then(|| pack(&op, &weights, &bias).unwrap());
        let place = second.map(|tensor| store(&tensor, &residual));
        let input = store(op.input(), &input);
        let units = 1 + random.below(32) as u32; // number for which blocks are cut
        let kernels = build(&op, input, place, output.clone(), constants, units);
        Self { kernels: kernels.unwrap_or_else(|why| panic!("{op:?}: {why}")), op, output, want }
    }

    /// Runs all blocks, backwards, because their order must not matter.
    pub(super) fn run(&self) {
        let mut scratch = Vec::new();
        let stop = AtomicU8::new(RUN);
        for (kernel, blocks) in &self.kernels {
            for index in (0..*blocks).rev() {
                let outcome = run_block(kernel, index, &stop, &mut scratch);
                assert_eq!(outcome, Outcome::Done, "{:?}", self.op);
            }
        }
    }

    pub(super) fn check(&self) {
        let (have, tensor) = (floats(&self.output.buffer), self.op.output());
        let mut others = have.to_vec();
        for (index, want) in indices(tensor).zip(&self.want) {
            let at = 16 + position(tensor, index);
            let have = f64::from(have[at]);
            let close = (have - want).abs() <= 1e-4 * want.abs().max(1.0)
                || have == *want
                || (have.is_nan() && want.is_nan());
            assert!(close, "{have}, not {want} at {index:?} of {:?}", self.op);
            others[at] = UNTOUCHED;
        }
        assert!(others.iter().all(|&value| value == UNTOUCHED), "wrote outside: {:?}", self.op);
    }
}

pub(super) fn run_block(
    kernel: &Kernel,
    index: u32,
    stop: &AtomicU8,
    scratch: &mut Vec<f32>,
) -> Outcome {
    kernel.run(&mut Block { index, unit: 0, stop, scratch }, &Args::new(&[]))
}
