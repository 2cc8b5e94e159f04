//! Convolutions whose tensors have numbers of 8 bits: which there are, and their tiles.

use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::element::{Element, has_quantized};
use crate::operators::operand::{is_in_fours, is_planar};
use crate::operators::tiles::slabs::ImplicitGemm;
use crate::operators::tiles::tile::{FP8, FP8_WITH_GROUPS, INT8, INT8_WITH_GROUPS, Tile};
use reef_core::{Error, Result};
use reef_op::{Conv2d, Format, Function, Layout, Op, Quantization, Quantized, Tensor};

/// Numbers of 8 bits that this device's kernels for `op`, which was checked, take.
pub(in crate::operators) fn quantization<V: Vendor>(
    gpu: &Gpu<V>,
    op: &Op,
    format: Format,
) -> Quantization {
    match op {
        _ if !has_quantized(gpu) => Quantization::default(),
        Op::Conv2d(op) => of_convolution(op, format),
        Op::Pool2d(op) => {
            let keeps = !is_planar(&op.input) && !is_planar(&op.output);
            Quantization { keeps, ..Quantization::default() }
        }
        _ => Quantization::default(),
    }
}

/// Products of integers of 8 bits that 32 bits can count.
const MAX_INTEGER_TERMS: usize = i32::MAX as usize / (127 * 127);
/// Products of floats of 8 bits that warpgroups add up. They keep some 14 bits of a sum and cut off
/// the rest (DeepSeek-V3 Technical Report, 2024, 3.5.2), so longer sums would be too small.
const MAX_FP8_TERMS_OF_GROUPS: usize = 4608;

fn of_convolution(op: &Conv2d, format: Format) -> Quantization {
    let Some(numbers) = Quantized::new(format, 1.0) else { return Quantization::default() };
    let counts = format != Format::Int8 || terms(op) <= MAX_INTEGER_TERMS;
    let with = |layout| Tensor { layout, ..op.input };
    let tiles = |input| ImplicitGemm::new(&Conv2d { input, ..*op }, Element::F16).is_some();
    let is_bounded = matches!(op.function, None | Some(Function::Clamp(_)));
    let by_itself = !op.relu || op.function.is_none();
    Quantization {
        input: counts && !is_planar(&op.input) && tiles(with(Layout::Quantized(numbers))),
        output: tiles(op.input) && is_in_fours(&op.output) && is_bounded && by_itself,
        keeps: false,
    }
}

/// Products of a sum.
fn terms(op: &Conv2d) -> usize {
    op.window.size.iter().product::<usize>() * op.input.channels
}

/// Checks that the device has a kernel for an op, as far as numbers of 8 bits are concerned.
///
/// # Errors
///
/// `Unsupported` names the op and what is missing.
pub(in crate::operators) fn check<V: Vendor>(gpu: &Gpu<V>, op: &Op) -> Result<()> {
    let [input, output] = [op.input(), op.output()].map(|tensor| tensor.layout.quantized());
    let formats = [input, output].into_iter().flatten().map(Quantized::format);
    let second = op.second().filter(|second| *second != op.output());
    let has = |format| {
        let has = quantization(gpu, op, format);
        let of_input = input.is_none() || has.input || has.keeps;
        of_input && (output.is_none() || has.output || has.keeps)
    };
    let same = input.zip(output).is_none_or(|(a, b)| a.format() == b.format());
    let plain = second.is_none_or(|second| second.layout.quantized().is_none());
    if same && plain && formats.clone().all(has) {
        return Ok(());
    }
    let what = if has_quantized(gpu) {
        format!("numbers of 8 bits: no kernel for {op:?}")
    } else {
        "numbers of 8 bits: need tensor cores of compute capability 8.0 and precision=fp16".into()
    };
    Err(Error::Unsupported { backend: V::NAME, what })
}

/// Tiles for its numbers; `on_groups` tells whether the device has warpgroups for them.
pub(super) fn tiles(op: &Conv2d, on_groups: impl Fn() -> bool) -> &'static [Tile] {
    let [input, output] = formats(op);
    let fits = input != Some(Format::Fp8) || terms(op) <= MAX_FP8_TERMS_OF_GROUPS;
    let groups = input.is_some() && fits && on_groups();
    match input.or(output) {
        Some(Format::Fp8) if groups => &FP8_WITH_GROUPS,
        Some(Format::Fp8) => &FP8,
        _ if groups => &INT8_WITH_GROUPS,
        _ => &INT8,
    }
}

/// Convolution with scales of 1, which make no difference to a plan.
pub(super) fn without_scales(op: &Conv2d) -> Conv2d {
    let without = |tensor: Tensor| {
        let numbers =
            tensor.layout.quantized().map(|numbers| Quantized::new(numbers.format(), 1.0));
        Tensor { layout: numbers.flatten().map_or(tensor.layout, Layout::Quantized), ..tensor }
    };
    Conv2d { input: without(op.input), output: without(op.output), ..*op }
}

fn formats(op: &Conv2d) -> [Option<Format>; 2] {
    [op.input, op.output].map(|tensor| tensor.layout.quantized().map(Quantized::format))
}

/// Name of the kernels for its numbers.
pub(super) fn family(op: &Conv2d) -> Option<&'static str> {
    let [input, output] = formats(op);
    Some(match (input, output) {
        (None, None) => return None,
        (None, Some(Format::Int8)) => "f16_int8",
        (Some(Format::Int8), Some(_)) => "int8_int8",
        (Some(Format::Int8), None) => "int8_f16",
        (None, Some(Format::Fp8)) => "f16_fp8",
        (Some(Format::Fp8), Some(_)) => "fp8_fp8",
        (Some(Format::Fp8), None) => "fp8_f16",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::{Options, Precision};
    use crate::operators::pack;
    use reef_core::{Device, Launch};
    use reef_op::{Bounds, Linear, Operands, Operators, Pool2d, PoolKind, Storage, Window};

    fn gpu(precision: Precision) -> Gpu<Fake> {
        let options = Options { precision: Some(precision), ..Options::default() };
        Gpu::new(Fake::with_tensor_cores(132), options).unwrap()
    }

    fn numbers(format: Format, scale: f32) -> Layout {
        Layout::Quantized(Quantized::new(format, scale).unwrap())
    }

    /// A convolution of 16 channels by 3 x 3.
    fn conv(input: Layout, output: Layout) -> Conv2d {
        let tensor = |layout| Tensor::new(layout, [1, 16, 6, 6]);
        let window = Window { size: [3, 3], stride: [1, 1], padding: [1, 1] };
        let (input, output, residual) = (tensor(input), tensor(output), false);
        Conv2d { input, output, window, groups: 1, residual, relu: true, function: None }
    }

    /// The launches of an op, all of whose tensors share a buffer.
    fn launches(gpu: &Gpu<Fake>, op: &Op) -> Result<Vec<Launch<Gpu<Fake>>>> {
        let [weights, bias] = op.constants().map(|count| vec![0.5; count]);
        let constants = gpu.pack(op, &weights, &bias)?;
        let memory = gpu.alloc(32 << 20)?;
        let storage = || Storage { buffer: &memory, offset: 0 };
        let operands = Operands {
            residual: op.second().map(|_| storage()),
            constants: Some(&constants),
            scratch: Some(storage()),
            ..Operands::new(storage(), storage())
        };
        gpu.operator(op, &operands)
    }

    fn kernels(gpu: &Gpu<Fake>, op: &Op) -> Vec<String> {
        let launches = launches(gpu, op).unwrap();
        launches.iter().map(|launch| launch.kernel().name().to_owned()).collect()
    }

    #[test]
    fn kernels_are_those_of_both_formats() {
        let gpu = gpu(Precision::Fp16);
        for format in Format::ALL {
            let (name, eight) = (format.name(), numbers(format, 0.5));
            let rows = [
                (Layout::Native, eight, format!("f16_{name}")),
                (eight, eight, format!("{name}_{name}")),
                (eight, Layout::Native, format!("{name}_f16")),
            ];
            for (input, output, family) in rows {
                let names = kernels(&gpu, &Op::Conv2d(conv(input, output)));
                assert_eq!(names, [format!("quantized_{family}_32x32")]);
            }
            let tensor = Tensor::new(eight, [1, 16, 6, 6]);
            let window = Window { size: [1, 1], stride: [1, 1], padding: [0, 0] };
            let kind = PoolKind::Max;
            let pool = Op::Pool2d(Pool2d { kind, input: tensor, output: tensor, window });
            assert_eq!(kernels(&gpu, &pool), [format!("pool_fours_{name}")]);
        }
    }

    #[test]
    fn warpgroups_take_inputs_of_8_bits_alone() {
        let options = Options { precision: Some(Precision::Fp16), ..Options::default() };
        let gpu = Gpu::new(Fake::with_warpgroups(true), options).unwrap();
        for format in Format::ALL {
            let (name, eight) = (format.name(), numbers(format, 0.5));
            let wide = |input, output| {
                let tensor = |layout| Tensor::new(layout, [1, 512, 28, 28]);
                let (input, output) = (tensor(input), tensor(output));
                Op::Conv2d(Conv2d { input, output, ..conv(eight, eight) })
            };
            let rows = [(eight, eight, name), (eight, Layout::Native, "f16")];
            for (input, output, to) in rows {
                let names = kernels(&gpu, &wide(input, output));
                assert!(names[0].starts_with(&format!("groups_{name}_{to}_")), "{names:?}");
            }
            let names = kernels(&gpu, &wide(Layout::Native, eight));
            assert!(names[0].starts_with(&format!("quantized_f16_{name}_")), "{names:?}");
        }
    }

    #[test]
    fn long_sums_are_left_to_numbers_that_hold_them() {
        let options = Options { precision: Some(Precision::Fp16), ..Options::default() };
        let gpu = Gpu::new(Fake::with_warpgroups(true), options).unwrap();
        let native = conv(Layout::Native, Layout::Native);
        let over = |channels, size| {
            let input = Tensor::new(Layout::Native, [1, channels, 28, 28]);
            let window = Window { size: [size; 2], stride: [1, 1], padding: [size / 2; 2] };
            Conv2d {
                input,
                output: Tensor::new(Layout::Native, [1, 512, 28, 28]),
                window,
                ..native
            }
        };
        let takes = |op, format| gpu.quantization(&Op::Conv2d(op), format).input;
        assert!(takes(over(576, 15), Format::Int8) && !takes(over(592, 15), Format::Int8));
        assert!(takes(over(592, 15), Format::Fp8));
        for (channels, prefix) in [(512, "groups"), (528, "quantized")] {
            let mut op = over(channels, 3);
            op.input.layout = numbers(Format::Fp8, 1.0);
            let plan = tiles(&op, || true);
            let last = plan.last().unwrap().body.prefix();
            assert_eq!(last, prefix, "{channels} channels");
        }
    }

    /// A plan that was measured serves all layers of a shape.
    #[test]
    fn plans_do_not_depend_on_scales() {
        let [a, b] = [0.5, 0.25].map(|scale| conv(numbers(Format::Int8, scale), Layout::Native));
        assert_ne!(a, b);
        assert_eq!(without_scales(&a), without_scales(&b));
        assert_ne!(without_scales(&a).input, conv(Layout::Native, Layout::Native).input);
    }

    #[test]
    fn image_is_converted_and_gives_numbers_of_8_bits() {
        let op = conv(Layout::Native, numbers(Format::Int8, 0.5));
        let op = Conv2d { input: Tensor::new(Layout::Nchw, [1, 3, 6, 6]), ..op };
        let names = kernels(&gpu(Precision::Fp16), &Op::Conv2d(op));
        assert_eq!(names, ["map_any_f16", "quantized_f16_int8_32x32"]);
    }

    #[test]
    fn quantization_says_what_kernels_take() {
        let gpu16 = gpu(Precision::Fp16);
        let said = |gpu: &Gpu<Fake>, op: &Conv2d| {
            let Quantization { input, output, keeps } =
                gpu.quantization(&Op::Conv2d(*op), Format::Int8);
            assert!(!keeps);
            [input, output]
        };
        let good = conv(Layout::Native, Layout::Native);
        let input = |channels| Tensor::new(Layout::Native, [1, channels, 6, 6]);
        assert_eq!(said(&gpu16, &good), [true, true]);
        assert_eq!(said(&gpu(Precision::Tf32), &good), [false, false]);
        let narrow = Conv2d { input: input(24), ..good };
        assert_eq!(said(&gpu16, &narrow), [false, true], "no whole chunk of 16 channels");
        let part = Conv2d { input: input(16).channels(8, 16, 32), ..good };
        assert_eq!(said(&gpu16, &part), [false, true], "a chunk that begins inside another");
        let extent = Conv2d { input: Tensor::new(Layout::Nchw, [1, 3, 6, 6]), ..good };
        assert_eq!(said(&gpu16, &extent), [false, true]);
        assert_eq!(said(&gpu16, &Conv2d { groups: 16, ..good }), [false, false]);
        let odd = Conv2d { output: input(6), ..good };
        assert_eq!(said(&gpu16, &odd), [true, false], "not four outputs at a time");
        let swish = Conv2d { relu: false, function: Some(Function::Swish), ..good };
        assert_eq!(said(&gpu16, &swish), [true, false], "a function that scales don't pass");
        let bounds = Some(Function::Clamp(Bounds::RELU6));
        assert_eq!(said(&gpu16, &Conv2d { relu: false, function: bounds, ..good }), [true, true]);
        assert_eq!(said(&gpu16, &Conv2d { function: bounds, ..good }), [true, false], "two");
    }

    #[test]
    fn refusals_name_the_op_or_what_is_missing() {
        let (eight, other) = (numbers(Format::Int8, 0.5), numbers(Format::Fp8, 0.5));
        let refused = |precision, op: Op| match launches(&gpu(precision), &op) {
            Err(Error::Unsupported { what, .. }) => what,
            other => panic!("{op:?}: {other:?}"),
        };
        let missing = refused(Precision::Fp32, Op::Conv2d(conv(eight, eight)));
        assert!(
            missing.ends_with("need tensor cores of compute capability 8.0 and precision=fp16")
        );
        let tensor = |layout| Tensor::new(layout, [1, 16, 1, 1]);
        let linear = |input, output| {
            Op::Linear(Linear {
                input: tensor(input),
                output: tensor(output),
                relu: false,
                function: None,
            })
        };
        let grouped = Conv2d { groups: 16, ..conv(eight, eight) };
        for op in [
            linear(eight, Layout::Native),
            linear(Layout::Native, eight),
            Op::Conv2d(conv(eight, other)),
            Op::Conv2d(grouped),
        ] {
            let what = refused(Precision::Fp16, op);
            assert!(what.starts_with("numbers of 8 bits: no kernel for "), "{what}");
        }
    }

    /// Scales of both sides are in the factors, and outputs are counted in theirs.
    #[test]
    fn packed_constants_have_biases_and_factors_behind_the_weights() {
        let op = conv(numbers(Format::Int8, 0.5), numbers(Format::Int8, 0.25));
        let window = Window { size: [1, 1], stride: [1, 1], padding: [0, 0] };
        let op = Op::Conv2d(Conv2d { window, ..op });
        let weights: Vec<f32> = (0..256).map(|n| if n % 17 == 0 { 12.7 } else { 0.1 }).collect();
        let packed = pack::pack(&op, Element::F16, &weights, &[3.0; 16]).unwrap();
        assert_eq!(packed.len(), 16 * 256 + 2 * 16 * 4);
        assert_eq!(packed[..3], [127, 1, 1]);
        assert_eq!(packed[256..][..3], [1, 127, 1]);
        let floats = packed[16 * 256..].as_chunks::<4>().0.iter().map(|&w| f32::from_le_bytes(w));
        let floats: Vec<_> = floats.collect();
        assert_eq!(floats[..16], [12.0; 16]);
        for factor in &floats[16..] {
            assert!((factor - 0.1 * 0.5 / 0.25).abs() < 1e-6, "{factor}");
        }
    }

    #[test]
    fn bounds_are_counted_in_the_scale_of_outputs() {
        let six = |scale| {
            let op = conv(Layout::Native, numbers(Format::Int8, scale));
            let function = Some(Function::Clamp(Bounds::RELU6));
            let op = Op::Conv2d(Conv2d { relu: false, function, ..op });
            let launches = launches(&gpu(Precision::Fp16), &op).unwrap();
            launches[0].kernel().bound().to_vec()
        };
        let high = |scale: f32| u64::from((6.0 / scale).to_bits());
        let has = |words: &[u64], want: u64| {
            words.iter().any(|w| w >> 32 == want || *w as u32 as u64 == want)
        };
        assert!(has(&six(0.5), high(0.5)) && has(&six(0.125), high(0.125)));
        assert!(!has(&six(0.5), high(0.125)));
    }
}
