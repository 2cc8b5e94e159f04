//! Scales that are found on a device.

use super::device::plain;
use super::scaled;
use reef_models::kinds::reference;
use reef_models::{Model, Seeded};
use reef_op::Format;

#[test]
fn ranges_of_a_device_are_those_of_plain_loops() {
    for (name, size) in [("resnet18", 32), ("densenet121", 32), ("inception_v3", 75)] {
        let (model, want) = scaled(name, size, Format::Int8);
        let input = Seeded(1).input(model.input_len());
        let found = model.calibrate(&plain(), Format::Int8, 100.0, [input]).unwrap();
        assert!(found.iter().count() > 20, "{name}");
        for (storage, largest) in found.iter() {
            assert_eq!(Some(largest), want.largest(storage), "{name}: {storage}");
        }
        let ends = ["data", "output"].map(|end| found.largest(end));
        assert_eq!((found.network(), found.samples(), ends), (name, 1, [None; 2]));
        model.with_scales(&found).unwrap();
    }
}

#[test]
fn percentile_is_that_of_each_image() {
    let model = Model::open("resnet18").input_size(32).batch(2).read().unwrap();
    let (image, tensors) = model.image().unwrap();
    let mut input = Seeded(1).input(model.input_len());
    let half = input.len() / 2;
    input[..half].iter_mut().for_each(|value| *value *= 8.0);
    let found = model.calibrate(&plain(), Format::Int8, 90.0, [input.clone()]).unwrap();
    let all = reference::execute_all(image, tensors, &input).unwrap();
    let at = image.graph().storage("layer1.0.conv1").unwrap();
    let of = |values: &[f32]| {
        let mut values: Vec<_> = values.iter().map(|value| value.abs()).collect();
        values.sort_by(f32::total_cmp);
        values[(values.len() * 9).div_ceil(10) - 1]
    };
    let (first, second) = all[at].split_at(all[at].len() / 2);
    assert_eq!(found.largest("layer1.0.conv1"), Some(of(first).max(of(second))));
    assert!(of(first) > of(&all[at]), "or the image would not matter");
}

#[test]
fn several_samples_count_with_their_largest() {
    let (model, _) = scaled("resnet18", 32, Format::Int8);
    let input = |seed| Seeded(seed).input(model.input_len());
    let of = |seeds: &[u64]| {
        let samples = seeds.iter().map(|&seed| input(seed));
        model.calibrate(&plain(), Format::Int8, 100.0, samples).unwrap()
    };
    let ([one, two], both) = ([of(&[1]), of(&[2])], of(&[1, 2]));
    for (name, largest) in both.iter() {
        assert_eq!(largest, one.largest(name).unwrap().max(two.largest(name).unwrap()));
    }
    assert_eq!(both.samples(), 2);
}

#[test]
fn samples_that_give_no_scales_are_refused() {
    let (model, _) = scaled("resnet18", 32, Format::Int8);
    let error = |percentile, samples: Vec<Vec<f32>>| {
        let found = model.calibrate(&plain(), Format::Int8, percentile, samples);
        found.unwrap_err().to_string()
    };
    let input = Seeded(1).input(model.input_len());
    assert_eq!(error(100.0, vec![]), "resnet18: samples: must be at least 1, got 0");
    let want = "resnet18: percentile: must be above 0 and at most 100, got 0";
    assert_eq!(error(0.0, vec![input.clone()]), want);
    let want = "input: must have 3072 values, got 3";
    assert_eq!(error(100.0, vec![vec![0.0; 3]]), want);
    let wild = input.iter().map(|_| f32::MAX).collect();
    let want = "resnet18: values of conv1 must be finite, in sample 2 one is not";
    assert_eq!(error(100.0, vec![input, wild]), want);
}

#[test]
fn calibration_without_steps_of_8_bits_is_an_error() {
    let model = Model::open("mobilenet_v1").input_size(32).read().unwrap();
    let input = Seeded(1).input(model.input_len());
    let found = model.calibrate(&plain(), Format::Int8, 100.0, [input]);
    let said = found.unwrap_err().to_string();
    assert_eq!(said, "mobilenet_v1: scales: no step of it can have numbers of 8 bits");
}
