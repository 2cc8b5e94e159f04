use super::turn::channels_last;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::tensors::axes::Result;
use crate::tensors::builder::Builder;
use crate::tensors::join::depthwise;
use crate::tensors::join::joined::joined;
use crate::tensors::model::TensorModel;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Element, FoldKind, Kind, Scalar, Spec, View};

const CHANNELS: usize = 8;

/// Made-up numbers between -0.5 and 0.5.
fn constant(b: &Builder<'_>, dims: &[usize]) -> Value {
    let count: usize = dims.iter().product();
    let number = |i: usize| ((i * 37 + count) % 101) as f32 / 101.0 - 0.5;
    b.constant(dims.to_vec(), Array::F32((0..count).map(number).collect())).unwrap()
}

/// A convolution in `groups` groups, with its bias, as it is read from a file.
fn convolution(
    b: &mut Builder<'_>,
    x: &Value,
    groups: usize,
    [size, stride, pad]: [usize; 3],
) -> Result<Value> {
    let &[n, c, ..] = x.dims() else { return Err("no image".into()) };
    let edge = [0, 0, pad as i64, pad as i64];
    let x = b.pad(x, &edge, &edge, Scalar::Whole(0))?;
    let (height, width, each) = (x.dims()[2], x.dims()[3], c / groups);
    let over = [height, width].map(|len| (len - size) / stride + 1);
    let (plane, taps) = (height * width, size * size);
    let view =
        |dims: &[usize], strides: &[usize]| View { dims: dims.into(), strides: strides.into() };
    let w = constant(b, &[CHANNELS, each, size, size]);
    let front = [n, groups, CHANNELS / groups, over[0], over[1]];
    let filters = each * taps;
    let kept = [
        view(&front, &[c * plane, plane * each, 0, stride * width, stride]),
        view(&front, &[0, filters * (CHANNELS / groups), filters, 0, 0]),
    ];
    let summed = [
        view(&[each, size, size], &[plane, width, 1]),
        view(&[each, size, size], &[taps, size, 1]),
    ];
    let sums =
        b.contract([&x, &w], kept, summed, vec![n, CHANNELS, over[0], over[1]], Element::F32)?;
    let bias = constant(b, &[CHANNELS, 1, 1]);
    b.binary(Binary::Add, &sums, &bias)
}

fn normal(b: &mut Builder<'_>, x: &Value) -> Result<Value> {
    let [made, ..] = b.standardise(x, &[3], 1e-6)?;
    let gain = constant(b, &[CHANNELS]);
    b.scaled(&made, Some(&gain), Some(&gain))
}

fn layer(b: &mut Builder<'_>, x: &Value, columns: usize) -> Result<Value> {
    let w = constant(b, &[x.dims()[3], columns]);
    let product = b.matmul(x, &w)?;
    let bias = constant(b, &[columns]);
    b.binary(Binary::Add, &product, &bias)
}

/// A block of ConvNeXt.
fn block(b: &mut Builder<'_>, x: &Value) -> Result<Value> {
    let mixed = convolution(b, x, CHANNELS, [3, 1, 1])?;
    let turned = b.transpose(&mixed, &[0, 2, 3, 1])?;
    let normal = normal(b, &turned)?;
    let wide = layer(b, &normal, 2 * CHANNELS)?;
    let active = b.map(Element::F32, &[&wide], |w| {
        let x = w.input(0);
        w.gelu(x)
    })?;
    let narrow = layer(b, &active, CHANNELS)?;
    let back = b.transpose(&narrow, &[0, 3, 1, 2])?;
    let scale = constant(b, &[CHANNELS, 1, 1]);
    let scaled = b.binary(Binary::Mul, &back, &scale)?;
    b.binary(Binary::Add, &scaled, x)
}

/// Patches, two blocks, a convolution between stages, and the mean of all pixels.
fn network(write: impl FnOnce(&mut Builder<'_>, &Value) -> Result<Vec<Value>>) -> TensorModel {
    let ledger = Ledger::new(&Budget::default());
    let mut b = Builder::new(&ledger);
    let x = b.input("x", Spec { element: Element::F32, dims: vec![2, 3, 12, 20] }).unwrap();
    let outputs = write(&mut b, &x).unwrap().into_iter().enumerate();
    b.finish("m", outputs.map(|(k, value)| (format!("y{k}"), value)).collect()).unwrap()
}

fn stages(b: &mut Builder<'_>, x: &Value) -> Result<Value> {
    let patches = convolution(b, x, 1, [2, 2, 0])?;
    let turned = b.transpose(&patches, &[0, 2, 3, 1])?;
    let first = normal(b, &turned)?;
    let mut x = b.transpose(&first, &[0, 3, 1, 2])?;
    for _ in 0..2 {
        x = block(b, &x)?;
    }
    let turned = b.transpose(&x, &[0, 2, 3, 1])?;
    let between = normal(b, &turned)?;
    let back = b.transpose(&between, &[0, 3, 1, 2])?;
    convolution(b, &back, 1, [2, 2, 0])
}

/// The steps on a device that has all joined ones, which give what the others give; names of them.
fn names(mut model: TensorModel) -> Vec<&'static str> {
    let count = model.inputs[0].spec.elements();
    let x = Array::F32((0..count).map(|i| (i * 7 % 113) as f32 * 0.03 - 1.7).collect());
    let want = model.execute(std::slice::from_ref(&x)).unwrap();
    let steps =
        channels_last(depthwise::join(&model.steps, &model.outputs, &|_| true), &model.outputs);
    model.steps = joined(&steps, &model.outputs, &|_| true);
    let have = model.execute(&[x]).unwrap();
    for (have, want) in have.iter().zip(&want) {
        let (Array::F32(have), Array::F32(want)) = (have, want) else { panic!("{have:?}") };
        assert_eq!(have.len(), want.len());
        let close = |(have, want): (&f32, &f32)| (have - want).abs() < 1e-5 * want.abs().max(1.0);
        assert!(have.iter().zip(want).all(close), "{have:?} {want:?}");
    }
    model.steps.iter().map(|step| step.op.name()).collect()
}

const BLOCK: [&str; 4] = ["depthwise", "row_map", "finished", "finished"];

#[test]
fn a_block_is_four_steps_and_nothing_is_turned() {
    let model = network(|b, x| {
        let y = stages(b, x)?;
        Ok(vec![b.fold_axes(&y, &[2, 3], FoldKind::Max)?])
    });
    let stem = ["finished", "row_map"];
    let end = ["row_map", "finished", "fold"];
    assert_eq!(names(model), [&stem[..], &BLOCK, &BLOCK, &end].concat());
}

#[test]
fn outputs_lie_as_they_did() {
    let turned = network(|b, x| Ok(vec![stages(b, x)?]));
    let made = names(turned);
    assert_eq!(made.last(), Some(&"finished"), "the last convolution makes planes");
    // All of a block is an output: the convolution reads planes, and the sums are turned to them.
    let kept = network(|b, x| {
        let first = convolution(b, x, 1, [2, 2, 0])?;
        Ok(vec![first.clone(), block(b, &first)?])
    });
    assert_eq!(
        names(kept),
        ["finished", "depthwise", "row_map", "finished", "finished", "move", "map"]
    );
}

#[test]
fn output_with_channels_last_is_filled() {
    let model = network(|b, x| {
        let first = convolution(b, x, 1, [2, 2, 0])?;
        let mixed = convolution(b, &first, CHANNELS, [3, 1, 1])?;
        Ok(vec![b.transpose(&mixed, &[0, 2, 3, 1])?])
    });
    assert_eq!(names(model), ["finished", "depthwise", "move"]);
}

#[test]
fn without_convolutions_of_single_channels_nothing_changes() {
    let model = network(|b, x| {
        let turned = b.transpose(x, &[0, 2, 3, 1])?;
        let twice = b.binary(Binary::Add, &turned, &turned)?;
        Ok(vec![b.transpose(&twice, &[0, 3, 1, 2])?])
    });
    assert_eq!(channels_last(model.steps.clone(), &model.outputs), model.steps);
}

#[test]
fn convolution_that_a_device_refuses_stays() {
    let model = network(|b, x| Ok(vec![stages(b, x)?]));
    assert_eq!(depthwise::join(&model.steps, &model.outputs, &|_| false), model.steps);
    // Dense convolutions, and those of a formula that is more than a bias, are none of these.
    let model = network(|b, x| Ok(vec![convolution(b, x, 1, [3, 1, 1])?]));
    assert_eq!(depthwise::join(&model.steps, &model.outputs, &|_| true), model.steps);
}

#[test]
fn padding_that_others_read_stays() {
    let model = network(|b, x| {
        let first = convolution(b, x, 1, [2, 2, 0])?;
        let edge = [0, 0, 1, 1];
        let padded = b.pad(&first, &edge, &edge, Scalar::Whole(0))?;
        let sums = convolution(b, &padded, CHANNELS, [3, 1, 0])?;
        Ok(vec![sums, padded])
    });
    let steps = depthwise::join(&model.steps, &model.outputs, &|_| true);
    let found = steps.iter().find_map(|step| match &step.op.kind {
        Kind::Depthwise(op) => Some((op.before, step.reads.len())),
        _ => None,
    });
    assert_eq!(found, Some(([0, 0], 3)), "without padding, with a bias");
}

#[test]
fn padding_may_differ_on_each_side() {
    let model = network(|b, x| {
        let first = convolution(b, x, 1, [2, 2, 0])?;
        let padded = b.pad(&first, &[0, 0, 2, 1], &[0, 0, 0, 3], Scalar::Whole(0))?;
        Ok(vec![convolution(b, &padded, CHANNELS, [3, 2, 0])?])
    });
    assert_eq!(names(model), ["finished", "depthwise"]);
}

#[test]
fn axes_of_one_element_change_places_for_nothing() {
    let model = network(|b, x| {
        let means = b.mean(x, &[2, 3])?;
        let turned = b.transpose(&means, &[0, 2, 3, 1])?;
        let [normal, ..] = b.standardise(&turned, &[3], 1e-6)?;
        Ok(vec![b.transpose(&normal, &[0, 3, 1, 2])?])
    });
    assert_eq!(model.outputs[0].spec.dims, [2, 3, 1, 1]);
    assert!(!model.steps.iter().any(|step| matches!(step.op.kind, Kind::Move(_))), "{model:?}");
}
