//! Storages that get numbers of 8 bits.

use super::{scale_of, scaled, text};
use reef_models::kinds::{ImageModel, full_quantization, plan};
use reef_models::{Model, NAMES, Scales};
use reef_op::{Format, Op, PoolKind, Quantization};

/// The network on a device that has all kernels of 8 bits.
fn planned(name: &str, size: usize) -> ImageModel {
    let (model, scales) = scaled(name, size, Format::Int8);
    plan(model.image().unwrap().0, &scales, full_quantization).unwrap()
}

#[test]
fn residuals_of_a_stage_share_a_scale_with_the_maxima() {
    let resnet = planned("resnet18", 32);
    let scale = |name: &str| scale_of(&resnet, name);
    let stage = ["conv1", "maxpool", "layer1.0.conv2", "layer1.1.conv2"];
    assert!(scale("conv1").is_some());
    assert!(stage.iter().all(|name| scale(name) == scale("conv1")), "{:?}", stage.map(scale));
    let other = ["layer2.0.downsample.0", "layer2.0.conv2", "layer2.1.conv2"];
    assert!(other.iter().all(|name| scale(name) == scale(other[0])), "{:?}", other.map(scale));
    assert_ne!(scale("conv1"), scale(other[0]));
    for inner in ["layer1.0.conv1", "layer4.0.conv1", "layer4.1.conv1"] {
        assert!(scale(inner).is_some(), "{inner}");
    }
}

#[test]
fn last_stage_stays_in_floats_as_the_mean_reads_it() {
    let resnet = planned("resnet50", 32);
    for name in ["data", "layer4.0.conv3", "layer4.1.conv3", "layer4.2.conv3", "avgpool", "output"]
    {
        assert_eq!(scale_of(&resnet, name), None, "{name}");
    }
    for name in ["layer3.5.conv3", "layer4.0.conv1", "layer4.2.conv2"] {
        assert!(scale_of(&resnet, name).is_some(), "{name}");
    }
}

#[test]
fn scale_of_a_group_is_that_of_its_largest_value() {
    let (model, scales) = scaled("resnet18", 32, Format::Int8);
    let planned = plan(model.image().unwrap().0, &scales, full_quantization).unwrap();
    let stage = ["conv1", "maxpool", "layer1.0.conv2", "layer1.1.conv2"];
    let largest = stage.map(|name| scales.largest(name).unwrap()).into_iter().fold(0.0, f32::max);
    assert_eq!(scale_of(&planned, "layer1.0.conv2"), Some(Format::Int8.scale_of(largest)));
}

#[test]
fn branches_that_are_joined_share_a_scale() {
    let inception = planned("inception_v3", 75);
    let joined = inception.graph().steps.iter().filter(|step| {
        inception.graph().steps.iter().filter(|other| other.writes == step.writes).count() > 1
    });
    let mut names: Vec<_> =
        joined.map(|step| inception.graph().storages[step.writes].name.clone()).collect();
    names.dedup();
    let in_floats: Vec<_> =
        names.iter().filter(|name| scale_of(&inception, name).is_none()).collect();
    assert!(names.len() > 10, "{names:?}");
    assert_eq!(in_floats, ["Mixed_7c"], "the mean reads it");
}

#[test]
fn storages_that_norms_read_stay_in_floats() {
    let dense = planned("densenet121", 32);
    let mut in_eight_bits = 0;
    for (step, layer) in dense.graph().steps.iter().zip(dense.layers()) {
        let [from, to] = [step.reads[0], step.writes].map(|at| &dense.graph().storages[at].name);
        if matches!(layer.op, Op::ScaleShift(_)) {
            assert_eq!([scale_of(&dense, from), scale_of(&dense, to)], [None, None], "{from} {to}");
        }
        in_eight_bits += usize::from(scale_of(&dense, to).is_some());
    }
    assert_eq!(in_eight_bits, 58, "one in each of 58 layers of two convolutions");
}

#[test]
fn steps_that_a_device_has_no_kernels_for_stay_in_floats() {
    let (model, scales) = scaled("resnet18", 32, Format::Fp8);
    let model = model.image().unwrap().0;
    let none = plan(model, &scales, |_| Quantization::default()).unwrap();
    assert_eq!(none, *model);
    let without_maxima = plan(model, &scales, |op| match op {
        Op::Pool2d(pool) if pool.kind == PoolKind::Max => Quantization::default(),
        other => full_quantization(other),
    });
    let without_maxima = without_maxima.unwrap();
    for name in ["conv1", "maxpool", "layer1.0.conv2", "layer1.1.conv2"] {
        assert_eq!(scale_of(&without_maxima, name), None, "{name}");
    }
    assert!(scale_of(&without_maxima, "layer1.0.conv1").is_some());
}

#[test]
fn storage_of_zeros_stays_in_floats() {
    let (model, scales) = scaled("resnet18", 32, Format::Int8);
    let zero = |(name, value)| (name, if name == "layer1.0.conv1" { 0.0 } else { value });
    let text = text("resnet18", Format::Int8, scales.iter().map(zero));
    let scales = Scales::from_json(&text, "a").unwrap();
    let planned = plan(model.image().unwrap().0, &scales, full_quantization).unwrap();
    assert_eq!(scale_of(&planned, "layer1.0.conv1"), None);
    assert!(scale_of(&planned, "layer1.0.conv2").is_some());
}

#[test]
fn every_network_has_one_layout_a_storage_and_valid_operations() {
    for name in NAMES {
        let model = Model::open(name).read().unwrap();
        let model = model.image().unwrap().0;
        let names = model.graph().storages.iter().map(|storage| storage.name.as_str());
        let text = text(name, Format::Fp8, names.clone().map(|name| (name, 1.0)));
        let planned = plan(model, &Scales::from_json(&text, name).unwrap(), full_quantization);
        let planned = planned.unwrap();
        let quantized = names.filter(|name| scale_of(&planned, name).is_some()).count();
        assert_eq!(
            quantized > 0,
            *name != "mobilenet_v1",
            "its convolutions alternate with groups"
        );
        for layer in planned.layers() {
            layer.op.check().unwrap();
        }
        assert_eq!([planned.input(), planned.output()], [model.input(), model.output()]);
    }
}
