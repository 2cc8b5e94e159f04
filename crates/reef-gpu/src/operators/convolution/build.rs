//! Convolutions: by tiles of the measured or modelled plan, or one output at a time where tiles
//! don't fit.

use super::quantized;
use super::tiled::{by_tiles, family, is_rounded, scratch_of};
use super::tune::tuned_plan;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::hal::facts::Facts;
use crate::operators::activation::ActivationParams;
use crate::operators::depthwise::{self, Sliding};
use crate::operators::element::Element;
use crate::operators::operand::{check_window, is_in_fours};
use crate::operators::params::{ConvAnyParams, View, window};
use crate::operators::site::{BoundOp, blocks};
use crate::operators::tiles::slabs::ImplicitGemm;
use crate::operators::tiles::tile::{Plan, THREADS, Tile, WARPS, WAVES, WITH_GROUPS};
use reef_core::{Error, Launch, Result};
use reef_op::rounding::{Rounded, Rounding};
use reef_op::{Conv2d, Scratch};

/// The scratch memory of the plan that [`build`] will choose if these of `op`'s numbers are
/// rounded.
pub(in crate::operators) fn scratch<V: Vendor>(
    gpu: &Gpu<V>,
    op: &Conv2d,
    rounded: Rounded,
) -> Scratch {
    let element = Element::of(gpu);
    let Some(gemm) = ImplicitGemm::new(op, element) else { return Scratch::default() };
    scratch_of(gpu, op, &gemm, &plan(gpu, op, &gemm, rounded))
}

/// Rounding of a device that multiplies in tf32. `more`: whether a function stands behind it that
/// isn't its own kernel's.
pub(in crate::operators) fn rounding(op: &Conv2d, more: bool) -> Rounding {
    let by_tiles = ImplicitGemm::new(op, Element::Tf32).is_some();
    let output = by_tiles && is_in_fours(&op.output) && !more;
    Rounding { input: by_tiles, output, keeps: false }
}

/// Returns whether the kernel for `op`, which was checked, has functions of its sums: tiles have
/// none but ReLU where they don't write outputs four at a time.
pub(in crate::operators) fn has_functions(op: &Conv2d, element: Element) -> bool {
    is_in_fours(&op.output) || ImplicitGemm::new(op, element).is_none()
}

/// The launches of a convolution with what its kernel [has](has_functions) behind its sums.
pub(in crate::operators) fn build<V: Vendor>(
    bound: &BoundOp<'_, V>,
    op: &Conv2d,
) -> Result<Vec<Launch<Gpu<V>>>> {
    check_window(&op.window, &op.input, &op.output)?;
    if op.residual != bound.second.is_some() {
        return Err(Error::invalid("residual", "must be given exactly if it is asked for"));
    }
    match ImplicitGemm::new(op, bound.element) {
        Some(gemm) => by_tiles(bound, op, &gemm, &plan(bound.gpu, op, &gemm, bound.rounded)),
        None => match by_channels(bound, op) {
            Some(launch) => Ok(vec![launch?]),
            None => one_by_one(bound, op).map(|launch| vec![launch]),
        },
    }
}

/// As measured if the device was asked to, and could; else as modelled.
pub(super) fn plan<V: Vendor>(
    gpu: &Gpu<V>,
    op: &Conv2d,
    gemm: &ImplicitGemm,
    rounded: Rounded,
) -> Plan {
    let op = &quantized::without_scales(&Conv2d { function: None, ..*op }); // no difference
    let tiles = tiles(gpu, op, gemm, rounded);
    let tuned = gpu.tuned().and_then(|plans| tuned_plan(plans, gpu, op, gemm, rounded, tiles).ok());
    tuned.unwrap_or_else(|| Plan::new(tiles, &gemm.shape(op), gpu.facts()))
}

/// The tiles that the device has for `op` if these of its numbers are rounded.
pub(super) fn tiles<V: Vendor>(
    gpu: &Gpu<V>,
    op: &Conv2d,
    gemm: &ImplicitGemm,
    rounded: Rounded,
) -> &'static [Tile] {
    let on_groups = || is_rounded(family(gpu, op, gemm, rounded)) && gpu.groups().is_some();
    match gpu.facts() {
        _ if quantized::family(op).is_some() => quantized::tiles(op, on_groups),
        facts if facts.tensor_cores && Element::of(gpu) != Element::F32 => {
            if on_groups() {
                &WITH_GROUPS
            } else {
                &WARPS
            }
        }
        Facts { wave: 64, .. } => &WAVES,
        _ => &THREADS,
    }
}

/// The launch of a convolution of each channel by itself; `None` if it is another, or there is no
/// kernel for its window.
fn by_channels<V: Vendor>(bound: &BoundOp<'_, V>, op: &Conv2d) -> Option<Result<Launch<Gpu<V>>>> {
    let each = [op.input.channels, op.output.channels] == [op.groups; 2];
    if !each || op.residual || bound.input.is_planar() || bound.output.is_planar() {
        return None;
    }
    let name = depthwise::kernel(&op.window)?;
    let sliding = Sliding {
        input: bound.input.view(),
        output: bound.output.view(),
        images: op.input.batch,
        channels: op.groups,
        window: op.window,
        weights: bound.weights,
        bias: bound.bias,
        activation: ActivationParams::behind(op.relu, op.function),
        late: false,
    };
    let (params, blocks) = sliding.params()?;
    Some(bound.launch(name, blocks, depthwise::THREADS, &params))
}

fn one_by_one<V: Vendor>(bound: &BoundOp<'_, V>, op: &Conv2d) -> Result<Launch<Gpu<V>>> {
    let count = (bound.output.pixels() * op.output.channels) as u64;
    let params = ConvAnyParams {
        input: bound.input.view(),
        output: bound.output.view(),
        residual: bound.second.map_or(View::default(), |residual| residual.view()),
        weights: bound.weights,
        bias: bound.bias,
        count,
        blocks: blocks(count, 256),
        outputs: (op.output.channels / op.groups) as u32,
        channels: (op.input.channels / op.groups) as u32,
        groups: op.groups as u32,
        window: window(&op.window),
        activation: ActivationParams::behind(op.relu, op.function),
        unused: 0,
    };
    bound.launch("conv_any", params.blocks, 256, &params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::{Options, Precision};
    use reef_core::{Backend, Device, Launch};
    use reef_op::{Function, Layout, Op, Operands, Operators, Storage, Tensor, Window};

    /// A caller may say that all is rounded: where kernels don't, launches are those for numbers
    /// that aren't.
    #[test]
    fn operands_that_kernels_do_not_round_stay_unrounded() {
        let tensor = Tensor::new(Layout::Native, [1, 8, 6, 6]);
        let (input, output, residual) = (tensor, tensor, false);
        let window = Window { size: [3, 3], stride: [1, 1], padding: [1, 1] };
        let kernels = |precision, relu, rounded| {
            let options = Options { precision: Some(precision), ..Options::default() };
            let gpu = Gpu::new(Fake::with_tensor_cores(132), options).unwrap();
            let function = Some(Function::Swish);
            let conv = Conv2d { input, output, window, groups: 1, residual, relu, function };
            let op = Op::Conv2d(conv);
            let constants = gpu.pack(&op, &vec![0.5; 8 * 8 * 9], &[0.5; 8]).unwrap();
            let launches = launches(&gpu, &op, &constants, rounded);
            let names = launches.iter().map(|launch| launch.kernel().name().to_owned());
            let words = launches.iter().map(|launch| launch.kernel().bound().last().copied());
            names.zip(words).collect::<Vec<_>>()
        };
        let output = Rounded { input: false, output: true };
        let all = Rounded { input: true, output: true };
        let none = Rounded::default();
        for precision in [Precision::Fp32, Precision::Fp16] {
            assert_eq!(kernels(precision, false, all), kernels(precision, false, none));
        }
        assert_ne!(kernels(Precision::Tf32, false, output), kernels(Precision::Tf32, false, none));
        assert_eq!(kernels(Precision::Tf32, true, output), kernels(Precision::Tf32, true, none));
    }

    /// Launches of an operation, whose tensors share a buffer.
    fn launches(
        gpu: &Gpu<Fake>,
        op: &Op,
        constants: &<Gpu<Fake> as Backend>::Buffer,
        rounded: Rounded,
    ) -> Vec<Launch<Gpu<Fake>>> {
        let memory = gpu.alloc(32 << 20).unwrap();
        let storage = || Storage { buffer: &memory, offset: 0 };
        let operands = Operands {
            constants: Some(constants),
            scratch: Some(storage()),
            rounded,
            ..Operands::new(storage(), storage())
        };
        gpu.operator(op, &operands).unwrap()
    }

    /// Kernels and grid of a convolution of 512 channels over 28 x 28.
    fn launched(gpu: &Gpu<Fake>, rounded: Rounded) -> Vec<(String, u32)> {
        let tensor = Tensor::new(Layout::Native, [1, 512, 28, 28]);
        let (input, output, residual) = (tensor, tensor, false);
        let window = Window { size: [3, 3], stride: [1, 1], padding: [1, 1] };
        let (groups, relu, function) = (1, true, None);
        let conv = Conv2d { input, output, window, groups, residual, relu, function };
        let op = Op::Conv2d(conv);
        let [_, bytes] = crate::operators::pack::layout(&op, Element::of(gpu)).unwrap();
        let constants = gpu.alloc(bytes).unwrap();
        let launches = launches(gpu, &op, &constants, rounded);
        launches.iter().map(|l| (l.kernel().name().to_owned(), l.grid()[0])).collect()
    }

    /// Devices without an image for warpgroups, with a driver that refuses it, and opened without
    /// the option.
    #[test]
    fn warpgroups_serve_devices_that_run_them_and_no_others() {
        let all = Rounded { input: true, output: true };
        let open = |fake, precision, warpgroups| {
            let options = Options { precision: Some(precision), warpgroups, ..Options::default() };
            Gpu::new(fake, options).unwrap()
        };
        let first = |gpu: &Gpu<Fake>, rounded| launched(gpu, rounded).remove(0).0;
        for (precision, family) in [(Precision::Fp16, "f16"), (Precision::Tf32, "rounded")] {
            let runs = open(Fake::with_warpgroups(true), precision, true);
            assert!(first(&runs, all).starts_with(&format!("groups_{family}_")));
            for (fake, option) in [
                (Fake::with_tensor_cores(132), true),
                (Fake::with_warpgroups(false), true),
                (Fake::with_warpgroups(true), false),
            ] {
                let gpu = open(fake, precision, option);
                assert!(first(&gpu, all).starts_with(&format!("conv_{family}_")));
            }
        }
        let full = open(Fake::with_warpgroups(true), Precision::Fp32, true);
        assert!(first(&full, all).starts_with("conv_fp32_"), "tensor cores aren't asked");
    }

    /// `wgmma` cuts off bits that `mma.sync` gets rounded.
    #[test]
    fn warpgroups_never_multiply_singles_that_are_not_rounded() {
        let precision = Some(Precision::Tf32);
        let options = Options { precision, warpgroups: true, ..Options::default() };
        let gpu = Gpu::new(Fake::with_warpgroups(true), options).unwrap();
        let output = Rounded { input: false, output: true };
        for rounded in [Rounded::default(), output] {
            assert!(launched(&gpu, rounded)[0].0.starts_with("conv_tf32_"));
        }
    }

    #[test]
    fn refused_image_of_warpgroups_is_loaded_once() {
        let options = Options { warpgroups: true, ..Options::default() };
        let gpu = Gpu::new(Fake::with_warpgroups(false), options).unwrap();
        let loads = || gpu.context().vendor.loads.load(std::sync::atomic::Ordering::Relaxed);
        let all = Rounded { input: true, output: true };
        launched(&gpu, all);
        let before = loads();
        launched(&gpu, all);
        assert_eq!(loads(), before);
    }

    /// Why a convolution of `input` by a window of 3 x 3 is refused, if it is.
    fn refusal(input: Tensor, output: Tensor) -> Option<Error> {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let window = Window { size: [3, 3], stride: [1, 1], padding: [1, 1] };
        let (residual, relu, function) = (false, false, None);
        let conv = Conv2d { input, output, window, groups: 1, residual, relu, function };
        let op = Op::Conv2d(conv);
        let [_, bytes] = crate::operators::pack::layout(&op, Element::F32).unwrap();
        let constants = gpu.alloc(bytes).unwrap();
        let memory = gpu.alloc(4 * input.storage_elements().max(1 << 20)).unwrap();
        let storage = || Storage { buffer: &memory, offset: 0 };
        let operands = Operands {
            constants: Some(&constants),
            scratch: Some(storage()),
            ..Operands::new(storage(), storage())
        };
        gpu.operator(&op, &operands).err()
    }

    /// Kernels count the bytes from a window's first tap to its last in a word with a sign: 2³¹
    /// would lie before the input.
    #[test]
    fn window_that_reaches_beyond_a_word_is_refused() {
        let tensor = |channels, width| Tensor::new(Layout::Native, [1, channels, 4, width]);
        let wide = refusal(tensor(512, 524_288), tensor(1, 524_288));
        let Some(Error::Unsupported { what, .. }) = wide else { panic!("{wide:?}") };
        assert!(what.starts_with("conv2d: a window must reach over less than 2 GiB"), "{what}");
        assert!(refusal(tensor(8, 524_288), tensor(1, 524_288)).is_none());
    }
}
