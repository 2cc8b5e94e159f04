//! Strips against gathered windows.

use super::block;
use crate::kernel::{Block, Kernel, Outcome, RUN};
use crate::kernels::blocks::operand_layout::OperandMemory;
use crate::kernels::images::convolution::bound_conv::BoundConv;
use crate::kernels::images::convolution::gathered;
use crate::kernels::images::pack::pack;
use crate::kernels::tests::reference::Random;
use crate::memory::buffer::Buffer;
use reef_core::Args;
use reef_op::{Conv2d, Layout, Op, Tensor, Window};
use std::sync::atomic::AtomicU8;

fn place(floats: &[f32]) -> OperandMemory {
    let buffer = Buffer::zeroed(floats.len() * 4).unwrap();
    // SAFETY: the buffer is new, and that long.
    unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr().cast(), floats.len()) }
        .copy_from_slice(floats);
    OperandMemory { buffer, offset: 0 }
}

/// Bits that a kernel of `blocks` blocks writes.
fn bits(launch: (Kernel, u32), output: &OperandMemory) -> Vec<u32> {
    let (kernel, blocks) = launch;
    let (stop, mut scratch) = (AtomicU8::new(RUN), vec![f32::NAN; 1 << 16]);
    for index in 0..blocks {
        let mut block = Block { index, unit: 0, stop: &stop, scratch: &mut scratch };
        assert_eq!(kernel.run(&mut block, &Args::new(&[])), Outcome::Done);
    }
    let bytes = output.buffer.bytes();
    // SAFETY: the buffer is that long, and no block runs any more.
    unsafe { std::slice::from_raw_parts(output.buffer.as_ptr().cast::<u32>(), bytes / 4) }.to_vec()
}

/// A convolution of planes; its window is a square.
fn op(shape: [usize; 4], outputs: usize, [size, stride, padding]: [usize; 3]) -> Conv2d {
    let input = Tensor::new(Layout::Nchw, shape);
    let window = Window { size: [size; 2], stride: [stride; 2], padding: [padding; 2] };
    let [height, width] = window.over([input.height, input.width]);
    let output = Tensor::new(Layout::Native, [shape[0], outputs, height, width]);
    Conv2d { input, output, window, groups: 1, residual: false, relu: true, function: None }
}

#[test]
fn strip_sums_equal_gathered_sums_for_any_units() {
    if !is_x86_feature_detected!("avx512f") {
        return reef_conformance::skip("no AVX-512");
    }
    let mut random = Random::new(3);
    for (shape, outputs, window) in [
        ([1, 3, 64, 64], 64, [7, 2, 3]),
        ([2, 3, 37, 45], 40, [3, 2, 0]),
        ([1, 3, 60, 50], 33, [3, 1, 1]),
        ([2, 4, 40, 40], 24, [11, 4, 2]),
        ([1, 1, 5, 4], 7, [7, 1, 3]),
    ] {
        let op = op(shape, outputs, window);
        let [weights, bias] = Op::Conv2d(op).constants().map(|len| random.floats(len));
        let constants = pack(&Op::Conv2d(op), &weights, &bias).unwrap();
        let input = place(&random.floats(op.input.elements()));
        let output = || place(&vec![0.0; op.output.elements()]);
        let gathered = output();
        let asked = BoundConv {
            op: &op,
            input: &input,
            residual: None,
            output: &gathered,
            constants: &constants,
            units: 1,
        };
        let want = gathered::block::build(&asked).unwrap();
        let want = bits(want, &gathered);
        for units in [1, 2, 16, 32] {
            let made = output();
            let kernel = block::build(&BoundConv { output: &made, units, ..asked }).unwrap();
            let kernel = kernel.unwrap_or_else(|| panic!("{op:?} has strips"));
            assert_eq!(bits(kernel, &made), want, "{op:?} for {units} units");
        }
    }
}

#[test]
fn convolution_without_strips_is_left_to_others() {
    let place = place(&[]);
    for op in [
        op([1, 3, 64, 64], 64, [3, 3, 1]),
        op([1, 3, 8, 4096], 64, [3, 1, 1]),
        op([1, 3000, 8, 8], 64, [3, 1, 1]),
        Conv2d { groups: 3, ..op([1, 3, 64, 64], 66, [3, 1, 1]) },
        Conv2d {
            input: Tensor::new(Layout::Native, [1, 3, 64, 64]),
            ..op([1, 3, 64, 64], 64, [7, 2, 3])
        },
    ] {
        let conv = BoundConv {
            op: &op,
            input: &place,
            residual: None,
            output: &place,
            constants: &place.buffer,
            units: 2,
        };
        let built = block::build(&conv);
        assert!(matches!(built, Ok(None)), "{op:?}");
    }
}
