//! Turns operations of networks into launches of kernels/network.cu.
//!
//! A native tensor lies pixel after pixel, each with all its channels (NHWC), as 32-bit floats or,
//! with `precision=fp16`, 16-bit ones. Storages have room for 32-bit floats either way. What the
//! tiles of `convolution` don't fit (groups, odd alignment, planes) goes to simple kernels that
//! take any layout.

use super::convolution::build as convolution;
use super::convolution::group;
use super::convolution::quantized::{check, quantization};
use super::element::Element;
use super::site::BoundOp;
use super::tensor::build as tensor;
use super::{map, pack, pointwise, pool, program};
use crate::code::kernel::Kernel;
use crate::driver::buffer::Buffer;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Launch, Result};
use reef_op::program::Program;
use reef_op::rounding::{Rounded, Rounding};
use reef_op::tensor::TensorOp;
use reef_op::{
    Activate, Format, Function, Op, Operands, Operators, PackedInput, Pool2d, PoolKind,
    Quantization, Scratch, TensorOperands,
};
use std::sync::Arc;

impl<V: Vendor> Operators for Gpu<V> {
    fn pack(&self, op: &Op, weights: &[f32], bias: &[f32]) -> Result<Buffer<V>> {
        op.check()?;
        check(self, op)?;
        let bytes = pack::pack(op, Element::of(self), weights, bias)?;
        let buffer = Buffer::device(self.context(), bytes.len())?;
        buffer.write(0, &bytes)?;
        Ok(buffer)
    }

    fn scratch(&self, op: &Op, rounded: Rounded) -> Scratch {
        match op {
            Op::Conv2d(conv) if op.check().is_ok() => {
                convolution::scratch(self, conv, rounded.within(self.rounding(op)))
            }
            _ => Scratch::default(),
        }
    }

    fn rounding(&self, op: &Op) -> Rounding {
        if Element::of(self) != Element::Tf32 || op.check().is_err() {
            return Rounding::default();
        }
        match self.in_one(op) {
            (Op::Conv2d(op), function) => convolution::rounding(&op, function.is_some()),
            (Op::ScaleShift(_), _) => Rounding { output: true, ..Rounding::default() },
            (Op::Pool2d(Pool2d { kind: PoolKind::Max, .. }), _) => {
                Rounding { keeps: true, ..Rounding::default() }
            }
            _ => Rounding::default(),
        }
    }

    fn quantization(&self, op: &Op, format: Format) -> Quantization {
        if op.check().is_err() {
            return Quantization::default();
        }
        quantization(self, op, format)
    }

    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        op.check()?;
        check(self, op)?;
        let allowed = self.rounding(op);
        let (op, function) = self.in_one(op);
        let bound = BoundOp::new(self, &op, operands)?.rounding(allowed);
        let mut launches = match &op {
            Op::Conv2d(op) => convolution::build(&bound, op),
            Op::Pool2d(op) => pool::build(&bound, op),
            Op::ScaleShift(op) => map::scale_shift(&bound, op),
            Op::Linear(op) => map::linear(&bound, op),
            Op::Activate(op) => pointwise::activate(&bound, op),
            Op::Multiply(op) => pointwise::multiply(&bound, op),
        }?;
        if let Some(function) = function {
            launches.extend(pointwise::activate(&bound.of_output(), &in_place(&op, function))?);
        }
        Ok(launches)
    }

    fn grouped_operators(&self, ops: &[(&Op, Rounded)]) -> Option<(usize, Scratch)> {
        group::grouped(self, ops)
    }

    fn operator_group(&self, ops: &[(&Op, Operands<'_, Self>)]) -> Result<Vec<Launch<Self>>> {
        if let Some(launch) = group::build(self, ops)? {
            return Ok(vec![launch]);
        }
        let each = ops.iter().map(|(op, operands)| self.operator(op, operands));
        Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn packed_input(&self, op: &TensorOp) -> Option<PackedInput> {
        tensor::packed_input(self, op)
    }

    fn pack_input(&self, packed: &PackedInput, values: &[f32]) -> Result<Buffer<V>> {
        tensor::pack_input(self, packed, values)
    }

    fn rounds_to_halves(&self, op: &TensorOp, input: usize) -> bool {
        tensor::rounds_to_halves(self, op, input)
    }

    fn takes_halves(&self, op: &TensorOp) -> bool {
        tensor::takes_halves(self, op)
    }

    fn has_joined(&self, op: &TensorOp) -> bool {
        tensor::takes(self, op)
    }

    fn tensor_scratch(&self, op: &TensorOp) -> Scratch {
        tensor::scratch(self, op)
    }

    fn tensor_operator(
        &self,
        op: &Arc<TensorOp>,
        operands: &TensorOperands<'_, Self>,
    ) -> Result<Vec<Launch<Self>>> {
        tensor::build(self, op, operands)
    }

    fn grouped(&self, ops: &[&TensorOp]) -> usize {
        tensor::grouped(self, ops)
    }

    fn tensor_group(
        &self,
        ops: &[(&Arc<TensorOp>, TensorOperands<'_, Self>)],
    ) -> Result<Vec<Launch<Self>>> {
        tensor::build_group(self, ops)
    }

    fn program_kernels(&self, program: &Program) -> Result<Vec<Kernel<V>>> {
        program::kernels(self, program)
    }
}

impl<V: Vendor> Gpu<V> {
    /// Splits `op`, which was checked, into the part that its own kernel does, and the function
    /// that is left for another: kernels have one activation, and not all have all.
    fn in_one(&self, op: &Op) -> (Op, Option<Function>) {
        let has_all = match op {
            Op::Conv2d(op) => !op.relu && convolution::has_functions(op, Element::of(self)),
            Op::Linear(op) => !op.relu,
            _ => true,
        };
        if has_all { (*op, None) } else { op.without_function() }
    }
}

/// Gives each value of what `op` writes to `function`.
fn in_place(op: &Op, function: Function) -> Activate {
    Activate { input: *op.output(), output: *op.output(), function }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use reef_core::{Device, Error};
    use reef_op::rounding::Rounded;
    use reef_op::{Bounds, Conv2d, Layout, Linear, Storage, Tensor, Window};

    /// In a release build, products of such sizes would wrap to small ones, and pass for what fits.
    #[test]
    fn sizes_whose_products_wrap_are_invalid() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let buffer = gpu.alloc(1 << 12).unwrap();
        let storage = || Storage { buffer: &buffer, offset: 0 };
        let good = Tensor::new(Layout::Native, [1, 8, 6, 6]);
        let window = Window { size: [3, 3], stride: [1, 1], padding: [1, 1] };
        let (residual, relu, function) = (false, false, None);
        let conv =
            Conv2d { input: good, output: good, window, groups: 1, residual, relu, function };
        for size in [1 << 30, 1 << 58, 1 << 61, 1 << 62, 1 << 63, usize::MAX] {
            let tensors = [
                Tensor { of: size, ..good },
                Tensor { batch: size, ..good },
                Tensor { height: size, ..good },
                Tensor { first: size, ..good },
                Tensor { channels: size, of: size, ..good },
            ];
            let activate = |t| {
                Op::Activate(Activate {
                    input: t,
                    output: t,
                    function: Function::Clamp(Bounds::RELU6),
                })
            };
            let linear = |input| Op::Linear(Linear { input, output: good, relu, function });
            let windows = [
                Window { size: [size, 3], ..window },
                Window { stride: [1, size], ..window },
                Window { padding: [size, size], ..window },
            ];
            let of_tensors = tensors
                .into_iter()
                .flat_map(|t| [activate(t), linear(t), Op::Conv2d(Conv2d { input: t, ..conv })]);
            let of_windows =
                windows.into_iter().map(|window| Op::Conv2d(Conv2d { window, ..conv }));
            for op in
                of_tensors.chain(of_windows).chain([Op::Conv2d(Conv2d { groups: size, ..conv })])
            {
                let operands =
                    Operands { constants: Some(&buffer), ..Operands::new(storage(), storage()) };
                let made = gpu.operator(&op, &operands);
                assert!(matches!(made, Err(Error::Invalid(_))), "{op:?}: {made:?}");
                assert!(matches!(gpu.pack(&op, &[], &[]), Err(Error::Invalid(_))), "{op:?}");
                assert_eq!(gpu.scratch(&op, Rounded::default()), Scratch::default());
            }
        }
    }

    /// Builds an activation with this output and this scratch memory.
    fn activate(
        gpu: &Gpu<Fake>,
        output: Storage<'_, Gpu<Fake>>,
        scratch: Option<Storage<'_, Gpu<Fake>>>,
    ) -> Result<()> {
        let memory = gpu.alloc(1 << 12).unwrap();
        let input = Tensor::new(Layout::Native, [1, 8, 6, 6]);
        let function = Function::Clamp(Bounds::RELU6);
        let op = Op::Activate(Activate { input, output: input, function });
        let input = Storage { buffer: &memory, offset: 0 };
        let operands = Operands { scratch, ..Operands::new(input, output) };
        gpu.operator(&op, &operands).map(drop)
    }

    #[test]
    fn operand_of_another_device_is_refused() {
        let [gpu, other] = [(); 2].map(|()| Gpu::new(Fake::default(), Options::default()).unwrap());
        let [own, theirs] = [&gpu, &other].map(|gpu| gpu.alloc(1 << 12).unwrap());
        let storage = |buffer| Storage { buffer, offset: 0 };
        assert_eq!(activate(&gpu, storage(&own), None), Ok(()));
        let said = activate(&gpu, storage(&theirs), None).unwrap_err().to_string();
        assert!(said.ends_with("got one of another device"), "{said}");
        assert!(
            activate(&gpu, storage(&own), Some(storage(&theirs))).is_err(),
            "as scratch memory"
        );
    }

    #[test]
    fn scratch_memory_off_a_multiple_of_64_is_refused() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let buffer = gpu.alloc(1 << 12).unwrap();
        let at = |offset| Storage { buffer: &buffer, offset };
        assert_eq!(activate(&gpu, at(0), Some(at(64))), Ok(()));
        let said = activate(&gpu, at(0), Some(at(4))).unwrap_err().to_string();
        assert!(said.contains("offset: must be a multiple of 64, got 4"), "{said}");
    }

    /// Functions of sums are in the kernels of the sums, unless there are two.
    #[test]
    fn an_activation_is_no_launch_of_its_own() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let tensor = |size| Tensor::new(Layout::Native, [1, 8, size, size]);
        let window = Window { size: [3, 3], stride: [1, 1], padding: [1, 1] };
        let launches = |op: Op| {
            let [weights, bias] = op.constants().map(|len| vec![0.5; len]);
            let constants = gpu.pack(&op, &weights, &bias).unwrap();
            let [input, output] = [(); 2].map(|()| gpu.alloc(1 << 12).unwrap());
            let scratch = gpu.alloc(gpu.scratch(&op, Rounded::default()).bytes.max(64)).unwrap();
            let storage = |buffer| Storage { buffer, offset: 0 };
            let operands = Operands {
                constants: Some(&constants),
                scratch: Some(storage(&scratch)),
                ..Operands::new(storage(&input), storage(&output))
            };
            gpu.operator(&op, &operands).unwrap().len()
        };
        let swish = Some(Function::Swish);
        let (input, output, residual) = (tensor(6), tensor(6), false);
        for groups in [1, 2, 8] {
            let conv = |relu, function| {
                Op::Conv2d(Conv2d { input, output, window, groups, residual, relu, function })
            };
            let plain = launches(conv(false, None));
            assert_eq!([launches(conv(false, swish)), launches(conv(true, None))], [plain; 2]);
            assert_eq!(launches(conv(true, swish)), plain + 1, "{groups} groups");
        }
        // But behind outputs that tiles can't write four at a time.
        let output = Tensor::new(Layout::Native, [1, 6, 6, 6]);
        let narrow = |function| {
            Op::Conv2d(Conv2d { input, output, window, groups: 1, residual, relu: false, function })
        };
        assert_eq!(launches(narrow(swish)), launches(narrow(None)) + 1);
        let (input, output) = (tensor(1), tensor(1));
        let linear = |function| Op::Linear(Linear { input, output, relu: false, function });
        assert_eq!([launches(linear(None)), launches(linear(swish))], [1, 1]);
    }
}
