//! Networks with joined convolutions give what their separate steps give.

use super::steps::join;
use crate::Model;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::join::moves;
use crate::tensors::layout::turn::channels_last;
use crate::tensors::model::TensorModel;
use crate::tensors::value::Value;
use crate::tensors::windows::convolution;
use reef_op::tensor::{Array, Binary, Domain, Eight, Element, Kind, Scalar, Spec, TensorOp, Unary};
use std::path::Path;

/// The network on a device that has the operations that `takes` takes.
fn on_device(model: &TensorModel, takes: &dyn Fn(&TensorOp) -> bool) -> TensorModel {
    let TensorModel { steps, outputs, quantized, storages, .. } = model;
    let steps = join(steps, outputs, quantized, storages.len(), takes);
    let steps = moves::join(channels_last(steps, outputs), outputs);
    TensorModel { steps, ..model.clone() }
}

fn eights(model: &TensorModel) -> Vec<Eight> {
    let eight = |kind: &Kind| if let Kind::Eight(eight) = kind { Some(*eight) } else { None };
    model.steps.iter().filter_map(|step| eight(&step.op.kind)).collect()
}

fn names(model: &TensorModel) -> Vec<&'static str> {
    model.steps.iter().map(|step| step.op.name()).collect()
}

fn stored(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx_quantized");
    folder.join(file).to_str().expect("it is text").to_owned()
}

/// Convolutions of files of `quantize_static`, of which the first reads three channels: outputs are
/// the same to a step. In one file a maximum of numbers follows it, which is not a formula.
#[test]
fn stored_files_with_joined_convolutions_give_the_same() {
    let cases = std::fs::read_to_string(stored("cases.json")).unwrap();
    let cases: serde_json::Value = serde_json::from_str(&cases).unwrap();
    let numbers = cases["images"].as_array().unwrap().iter();
    let numbers: Vec<f32> = numbers.map(|number| number.as_f64().unwrap() as f32).collect();
    let images = cases["kinds"].as_array().unwrap().len();
    for name in ["per_channel", "per_tensor", "symmetric", "unsigned", "operators"] {
        let step = cases["files"][name]["step"].as_f64().unwrap();
        let read = Model::open(stored(&format!("{name}.onnx"))).read().unwrap();
        let model = read.tensors().unwrap();
        let all = if name == "operators" { 2 } else { 3 };
        let wide = on_device(model, &is_wide);
        let any = on_device(model, &is_any);
        for (joined, count) in [(wide, 2), (any, all)] {
            assert_eq!(eights(&joined).len(), count, "{name}: {:?}", names(&joined));
            assert!(joined.arena().bytes > 0, "new storages have places");
            for image in numbers.chunks(numbers.len() / images) {
                let image = [Array::F32(image.to_vec())];
                let made = joined.execute(&image).unwrap()[0].values().to_f64();
                let want = model.execute(&image).unwrap()[0].values().to_f64();
                let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1.001 * step;
                assert_eq!(made.len(), want.len());
                assert!(made.iter().zip(&want).all(close), "{name}: {made:?}, not {want:?}");
            }
        }
        assert_eq!(on_device(model, &|_| false), *model, "{name}");
    }
}

fn is_wide(op: &TensorOp) -> bool {
    matches!(&op.kind, Kind::Eight(op) if op.shape[1] == 16)
}

fn is_any(_: &TensorOp) -> bool {
    true
}

const CHANNELS: usize = 6;

/// Numbers of 8 bits, and what they mean.
struct Numbers {
    value: Value,
    scale: f64,
    zero: f64,
}

fn quantized(b: &mut Builder<'_>, x: &Value, scale: f64, zero: f64) -> Numbers {
    let made = b.map_in(Domain::F32, Element::I8, &[x], |w| {
        let (x, scale) = (w.input(0), w.real(scale));
        let quotient = w.div(x, scale);
        rounded(w, quotient, zero)
    });
    Numbers { value: made.unwrap(), scale, zero }
}

fn rounded(w: &mut Writer, steps: usize, zero: f64) -> usize {
    let (zero, low, high) = (w.real(zero), w.real(-128.0), w.real(127.0));
    let whole = w.un(Unary::Round, steps);
    let moved = w.add(whole, zero);
    let is_above = w.bin(Binary::Less, low, moved);
    let above = w.select(is_above, moved, low);
    w.bin(Binary::Min, above, high)
}

fn values(b: &mut Builder<'_>, numbers: &Numbers) -> Value {
    let Numbers { value, scale, zero } = numbers;
    let made = b.map_in(Domain::F32, Element::F32, &[value], |w| {
        let (x, scale, zero) = (w.input(0), w.real(*scale), w.real(*zero));
        let moved = w.sub(x, zero);
        w.mul(moved, scale)
    });
    made.unwrap()
}

/// Made-up eighths, from -3 to 3 of them. A sum of products of them is exact.
fn eighths(b: &Builder<'_>, dims: &[usize]) -> Value {
    let count: usize = dims.iter().product();
    let number = |at: usize| ((at * 37 + count) % 7) as f32 / 8.0 - 0.375;
    b.constant(dims.to_vec(), Array::F32((0..count).map(number).collect())).unwrap()
}

/// A convolution of values with a bias, by windows of `size` with `pad` zeros around the image.
fn convolved(b: &mut Builder<'_>, x: &Value, [size, stride, pad]: [usize; 3]) -> Value {
    let edge = [0, 0, pad as i64, pad as i64];
    let x = b.pad(x, &edge, &edge, Scalar::Whole(0)).unwrap();
    let sums = contracted(b, &x, [1, size, stride, 1]);
    let bias = eighths(b, &[CHANNELS, 1, 1]);
    b.binary(Binary::Add, &sums, &bias).unwrap()
}

/// Sums over windows of `size`, in groups, without zeros around the image.
fn contracted(
    b: &mut Builder<'_>,
    x: &Value,
    [groups, size, stride, dilation]: [usize; 4],
) -> Value {
    let w = eighths(b, &[CHANNELS, x.dims()[1] / groups, size, size]);
    let over = [2, 3].map(|axis| (x.dims()[axis] - (size - 1) * dilation - 1) / stride + 1);
    let (strides, dilations) = ([stride; 2], [dilation; 2]);
    let sums = convolution(x.dims(), w.dims(), groups, &over, &strides, &dilations, Domain::F32);
    let dims = vec![x.dims()[0], CHANNELS, over[0], over[1]];
    b.emit(Kind::Contract(sums), &[x, &w], Spec { element: Element::F32, dims }).unwrap()
}

/// A network of numbers of an image, which `write` continues.
fn network(write: impl FnOnce(&mut Builder<'_>, &Numbers) -> Vec<Value>) -> TensorModel {
    let ledger = Ledger::new(&Budget::default());
    let mut b = Builder::new(&ledger);
    let x = b.input("x", Spec { element: Element::F32, dims: vec![2, 4, 5, 6] }).unwrap();
    let x = quantized(&mut b, &x, 0.5, -3.0);
    let outputs = write(&mut b, &x).into_iter().enumerate();
    b.finish("m", outputs.map(|(k, value)| (format!("y{k}"), value)).collect()).unwrap()
}

/// The network with all convolutions joined, after a check that it gives the same.
fn same(model: &TensorModel) -> TensorModel {
    let joined = on_device(model, &|_| true);
    let count = model.inputs[0].spec.elements();
    let x = [Array::F32((0..count).map(|at| (at * 7 % 113) as f32 * 0.125 - 7.0).collect())];
    assert_eq!(joined.execute(&x).unwrap(), model.execute(&x).unwrap(), "{:?}", names(&joined));
    joined
}

#[test]
fn images_stay_channels_last_between_convolutions() {
    let model = network(|b, x| {
        let values_x = values(b, x);
        let sums = convolved(b, &values_x, [3, 1, 1]);
        let first = quantized(b, &sums, 0.5, -128.0);
        let values_first = values(b, &first);
        let sums = convolved(b, &values_first, [1, 2, 0]);
        let second = quantized(b, &sums, 2.0, 3.0);
        vec![values(b, &second)]
    });
    let joined = same(&model);
    assert_eq!(names(&joined), ["map", "move", "eight", "eight", "move", "map"]);
    let [first, second] = eights(&joined)[..] else { panic!("{:?}", names(&joined)) };
    assert_eq!((first.zeros, second.zeros), ([-3, -127], [-127, 3]));
    assert_eq!((first.shape, first.padding), ([2, 4, 7, 8], [0, 0]));
    assert_eq!((second.over, second.stride), ([CHANNELS, 3, 3], [2, 2]));
}

#[test]
fn formulas_take_one_off_where_the_lowest_number_is_zero() {
    let model = network(|b, x| {
        let values_x = values(b, x);
        let sums = convolved(b, &values_x, [1, 1, 0]);
        let first = quantized(b, &sums, 0.25, -128.0);
        let values_first = values(b, &first);
        let sums = convolved(b, &values_first, [3, 1, 1]);
        let second = quantized(b, &sums, 1.0, 3.0);
        let values_second = values(b, &second);
        let sum = b.binary(Binary::Add, &values_second, &values_first).unwrap();
        let third = quantized(b, &sum, 1.0, -128.0);
        vec![values(b, &third)]
    });
    let joined = same(&model);
    assert_eq!(eights(&joined).len(), 2, "{:?}", names(&joined));
}

#[test]
fn lowest_zero_point_that_no_formula_reads_is_not_joined() {
    let end = |zero: f64, write: fn(&mut Builder<'_>, &Numbers) -> Value| {
        let model = network(|b, x| {
            let values_x = values(b, x);
            let sums = convolved(b, &values_x, [1, 1, 0]);
            let made = quantized(b, &sums, 0.25, zero);
            vec![write(b, &made)]
        });
        eights(&same(&model)).len()
    };
    let as_output: fn(&mut Builder<'_>, &Numbers) -> Value = |_, made| made.value.clone();
    let turned: fn(&mut Builder<'_>, &Numbers) -> Value =
        |b, made| b.transpose(&made.value, &[0, 2, 3, 1]).unwrap();
    assert_eq!([end(-128.0, as_output), end(-128.0, turned), end(-128.0, values)], [0, 0, 1]);
    assert_eq!([end(4.0, as_output), end(4.0, turned)], [1, 1]);
}

#[test]
fn relu_is_joined_where_no_zero_point_moves_its_bound() {
    let with = |zero: f64| {
        let model = network(|b, x| {
            let values_x = values(b, x);
            let sums = convolved(b, &values_x, [1, 1, 0]);
            let bounded = b.each(&sums, |w, x| w.relu(x)).unwrap();
            let made = quantized(b, &bounded, 0.25, zero);
            vec![values(b, &made)]
        });
        eights(&same(&model)).first().map(|eight| eight.relu)
    };
    assert_eq!([with(0.0), with(-128.0), with(5.0)], [Some(true), Some(false), None]);
}

#[test]
fn zeros_around_numbers_without_a_zero_point_are_kernels_own() {
    let model = network(|b, x| {
        let values_x = values(b, x);
        let plain = quantized(b, &values_x, 0.5, 0.0);
        let values_plain = values(b, &plain);
        let sums = convolved(b, &values_plain, [3, 2, 1]);
        let made = quantized(b, &sums, 0.5, 1.0);
        vec![values(b, &made)]
    });
    let joined = same(&model);
    let [eight] = eights(&joined)[..] else { panic!("{:?}", names(&joined)) };
    assert_eq!((eight.shape, eight.padding), ([2, 4, 5, 6], [1, 1]));
    assert_eq!(names(&joined).iter().filter(|name| **name == "move").count(), 2, "there and back");
}

/// Taps there read the zero point: a row above, and two columns behind.
#[test]
fn zeros_on_one_side_become_numbers_of_the_zero_point() {
    for zero in [-3.0, 0.0, -128.0] {
        let model = network(|b, x| {
            let values_x = values(b, x);
            let own = quantized(b, &values_x, 0.5, zero);
            let values_own = values(b, &own);
            let [before, after] = [[0, 0, 1, 0], [0, 0, 0, 2]];
            let padded = b.pad(&values_own, &before, &after, Scalar::Whole(0)).unwrap();
            let sums = convolved(b, &padded, [3, 1, 0]);
            let made = quantized(b, &sums, 2.0, 1.0);
            vec![values(b, &made)]
        });
        let [eight] = eights(&same(&model))[..] else { panic!("zero point {zero}") };
        assert_eq!((eight.shape, eight.padding), ([2, 4, 6, 8], [0, 0]));
        assert_eq!((f64::from(eight.zeros[0]), eight.zeros[1]), (zero, 1));
    }
}

#[test]
fn groups_and_gaps_between_taps_stay() {
    let joined = |form: [usize; 4]| {
        let model = network(|b, x| {
            let values_x = values(b, x);
            let sums = contracted(b, &values_x, form);
            let made = quantized(b, &sums, 2.0, 1.0);
            vec![values(b, &made)]
        });
        eights(&same(&model)).len()
    };
    assert_eq!([[1, 2, 1, 1], [2, 2, 1, 1], [1, 2, 1, 2]].map(joined), [1, 0, 0]);
}

/// Values of numbers and numbers may have other readers; sums may not.
#[test]
fn sums_that_another_step_reads_stay() {
    let joined = |which: usize| {
        let model = network(|b, x| {
            let values_x = values(b, x);
            let sums = contracted(b, &values_x, [1, 2, 1, 1]);
            let made = quantized(b, &sums, 2.0, 1.0);
            let all = [values_x, sums, made.value.clone()];
            let read = b.unary(Unary::Abs, &all[which]).unwrap();
            vec![values(b, &made), read]
        });
        eights(&same(&model)).len()
    };
    assert_eq!([0, 1, 2].map(joined), [1, 0, 1]);
}

/// As `QLinearConv` is read: integers of 32 bits, a bias, and scales behind both.
#[test]
fn sums_of_integers_are_joined_with_their_scales() {
    let made = |largest: i32| {
        let model = network(|b, x| {
            let moved = b.map_in(Domain::I64, Element::I32, &[&x.value], |w| {
                let (number, zero) = (w.input(0), w.real(x.zero));
                w.sub(number, zero)
            });
            let edge = [0, 0, 1, 1];
            let moved = b.pad(&moved.unwrap(), &edge, &edge, Scalar::Whole(0)).unwrap();
            let number = |at: i32| if at == 0 { largest } else { at * 37 % 7 - 3 };
            let numbers = Array::I32((0..36 * CHANNELS as i32).map(number).collect());
            let w = b.constant(vec![CHANNELS, 4, 3, 3], numbers).unwrap();
            let (over, ones) = ([5, 6], [1; 2]);
            let sums = convolution(moved.dims(), w.dims(), 1, &over, &ones, &ones, Domain::I64);
            let spec = Spec { element: Element::I32, dims: vec![2, CHANNELS, 5, 6] };
            let sums = b.emit(Kind::Contract(sums), &[&moved, &w], spec).unwrap();
            let biases = Array::I32((0..CHANNELS as i32).collect());
            let bias = b.constant(vec![CHANNELS, 1, 1], biases).unwrap();
            let sums = b.binary(Binary::Add, &sums, &bias).unwrap();
            let made = b.map_in(Domain::F32, Element::I8, &[&sums], |w| {
                let (sum, x, weight, y) = (w.input(0), w.real(0.5), w.real(0.125), w.real(1.0));
                let product = w.mul(x, weight);
                let scale = w.div(product, y);
                let steps = w.mul(sum, scale);
                rounded(w, steps, -128.0)
            });
            vec![values(b, &Numbers { value: made.unwrap(), scale: 1.0, zero: -128.0 })]
        });
        eights(&same(&model)).first().map(|eight| (eight.scales, eight.zeros))
    };
    assert_eq!(made(3), Some(([0.0625, 1.0], [-3, -127])));
    assert_eq!(made(-128), None, "no integer that kernels take");
}

#[test]
fn weights_that_are_not_integers_times_a_scale_stay() {
    let model = network(|b, x| {
        let values_x = values(b, x);
        let number = |at: usize| (at as f32 * 1.7).sin();
        let numbers = Array::F32((0..4 * CHANNELS).map(number).collect());
        let w = b.constant(vec![CHANNELS, 4, 1, 1], numbers).unwrap();
        let sums =
            convolution(values_x.dims(), w.dims(), 1, &[5, 6], &[1; 2], &[1; 2], Domain::F32);
        let spec = Spec { element: Element::F32, dims: vec![2, CHANNELS, 5, 6] };
        let sums = b.emit(Kind::Contract(sums), &[&values_x, &w], spec).unwrap();
        let made = quantized(b, &sums, 0.25, 3.0);
        vec![values(b, &made)]
    });
    assert!(model.quantized.is_empty());
    assert_eq!(on_device(&model, &|_| true), model);
}
