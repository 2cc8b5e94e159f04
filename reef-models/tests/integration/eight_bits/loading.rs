//! Networks with scales on devices.

use super::device::{eight, plain};
use super::{scaled, text};
use reef_core::{Priority, Queue, Seq, issue};
use reef_models::kinds::{Layer, Source, TensorSpec, full_quantization, plan, reference};
use reef_models::{Model, Network, Result, Scales, Seeded};
use reef_op::{Format, Operators};

/// Output of an inference.
fn infer<D: Operators>(device: &D, network: &Network<D>, input: &[f32]) -> Vec<f32> {
    network.stage_input(input).unwrap();
    let mut queue = device.queue(Priority::BestEffort, None).unwrap();
    for (seq, command) in (0..).map(Seq).zip(&*network.inference()) {
        issue(command, seq, None, &mut queue).unwrap();
    }
    assert_eq!(queue.completed().unwrap(), Seq(network.inference().len() as u64));
    network.staged_output().unwrap()
}

#[test]
fn device_gets_the_layouts_of_its_kernels() {
    for (name, size) in [("resnet18", 32), ("densenet121", 32), ("inception_v3", 75)] {
        let (model, scales) = scaled(name, size, Format::Int8);
        let (floats, tensors) = model.image().unwrap();
        let input = Seeded(3).input(model.input_len());
        let planned = plan(floats, &scales, full_quantization).unwrap();
        let want = reference::execute(&planned, tensors, &input).unwrap();
        let opened = Model::open(name).input_size(size).scales(&scales).read().unwrap();
        assert_eq!(*opened.image_on(&eight()).unwrap(), planned);
        let network = opened.load(&eight()).unwrap();
        assert_eq!(infer(&eight(), &network, &input), want, "{name}");
        assert_ne!(want, opened.expected(&input).unwrap(), "{name}: these are floats");
    }
}

/// Tensors among which the fourth row of each with more than one row has an infinite value.
struct Infinite<'a, S>(&'a S);

impl<S: Source> Source for Infinite<'_, S> {
    fn tensor(&self, spec: &TensorSpec) -> Result<Vec<f32>> {
        let mut values = self.0.tensor(spec)?;
        if spec.name.ends_with("conv1.weight") {
            let row = values.len() / 64;
            values[3 * row] = f32::INFINITY;
        }
        Ok(values)
    }
}

#[test]
fn infinite_weight_of_8_bits_is_refused_by_its_channel() {
    let (model, scales) = scaled("resnet18", 32, Format::Int8);
    let (floats, tensors) = model.image().unwrap();
    let planned = plan(floats, &scales, full_quantization).unwrap();
    let is_eight =
        |layer: &&Layer| layer.op.input().layout.quantized().is_some() && layer.parameters() > 0;
    let layer = planned.layers().iter().find(is_eight).unwrap();
    layer.fold(tensors).unwrap();
    let said = layer.fold(&Infinite(tensors)).unwrap_err().to_string();
    let want = "layer1.0.conv1.weight: output channel 3 must be finite for numbers of 8 bits, got ";
    assert!(said.starts_with(want), "{said}");
    let of_floats = floats.layers().iter().find(|floats| floats.constants == layer.constants);
    of_floats.unwrap().fold(&Infinite(tensors)).unwrap();
}

#[test]
fn scales_serve_any_size_and_constants_of_others_do_not() {
    let (_, scales) = scaled("resnet18", 32, Format::Fp8);
    let open = |size| Model::open("resnet18").input_size(size);
    let device = eight();
    let floats = open(32).read().unwrap().weights(&device).unwrap();
    let model = open(64).scales(&scales).read().unwrap();
    let shared = model.weights_sharing(&floats).unwrap();
    assert_eq!(shared.own_bytes(Some(&floats)), model.constant_bytes());
    let again = open(32).scales(&scales).read().unwrap().weights_sharing(&shared).unwrap();
    assert_eq!(again.own_bytes(Some(&shared)), 0, "equal numbers, whatever the size is");
}

#[test]
fn device_without_kernels_of_8_bits_is_an_error() {
    let (model, scales) = scaled("resnet18", 32, Format::Int8);
    let model = model.with_scales(&scales).unwrap();
    let said = model.load(&plain()).unwrap_err().to_string();
    let begin =
        "null: unsupported: resnet18 in int8: nothing has no kernels that take steps of it: ";
    assert!(said.starts_with(begin) && said.ends_with("precision=fp16"), "{said}");
    assert!(model.instance_bytes(&plain()) > 0);
}

#[test]
fn network_without_steps_of_8_bits_says_so_on_any_device() {
    let [(mobile, some), (_, zeros)] =
        ["mobilenet_v1", "resnet18"].map(|name| scaled(name, 32, Format::Int8));
    let names = zeros.iter().map(|(name, _)| (name, 0.0));
    let zeros = Scales::from_json(&text("resnet18", Format::Int8, names), "a").unwrap();
    let resnet = Model::open("resnet18").input_size(32).scales(&zeros).read().unwrap();
    for model in [mobile.with_scales(&some).unwrap(), resnet] {
        let name = model.name();
        let want = format!("{name}: scales: no step of it can have numbers of 8 bits: ");
        let errors = [model.load(&eight()).map(drop), model.load(&plain()).map(drop)];
        for error in errors.map(|loaded| loaded.unwrap_err().to_string()) {
            assert!(error.starts_with(&want), "{error}");
        }
    }
}

#[test]
fn scales_of_another_network_are_an_error() {
    let (model, scales) = scaled("resnet18", 32, Format::Int8);
    let error = |model: Result<Model>| model.unwrap_err().to_string();
    let other = Model::open("resnet50").input_size(32).scales(&scales).read();
    let want = "resnet50: scales of resnet18 have no storage \"layer1.0.downsample.0\": calibrate it again";
    assert_eq!(error(other), want);
    let some = Scales::from_json(&text("resnet18", Format::Int8, [("conv1", 1.0)]), "a").unwrap();
    let want = "resnet18: scales of resnet18 have no storage \"maxpool\": calibrate it again";
    assert_eq!(error(model.with_scales(&some)), want);
    let (_, all) = scaled("resnet18", 32, Format::Int8);
    let more = all.iter().chain([("conv9", 1.0)]);
    let more = Scales::from_json(&text("resnet18", Format::Int8, more), "a").unwrap();
    let want = "resnet18: scales of resnet18: storages must be those of the network, got \"conv9\": \
                calibrate it again";
    assert_eq!(error(Model::open("resnet18").scales(&more).read()), want);
    let tensors = error(Model::open("distilbert").input_size(8).scales(&scales).read());
    assert!(tensors.contains("takes tensors"), "{tensors}");
}

#[test]
fn scales_serve_a_file_that_was_renamed() {
    let (model, scales) = scaled("resnet18", 32, Format::Int8);
    let old = text("its_old_name", Format::Int8, scales.iter());
    let old = Scales::from_json(&old, "a").unwrap();
    let input = Seeded(3).input(model.input_len());
    let [want, got] = [scales, old].map(|scales| {
        let model = model.clone().with_scales(&scales).unwrap();
        infer(&eight(), &model.load(&eight()).unwrap(), &input)
    });
    assert_eq!(got, want);
}

#[test]
fn scales_are_part_of_the_structure() {
    let (model, scales) = scaled("resnet18", 32, Format::Int8);
    let structure = |model: &Model| {
        let mut text = String::new();
        model.write_structure(&mut text).unwrap();
        text
    };
    let [int8, fp8] = [Format::Int8, Format::Fp8]
        .map(|format| model.clone().with_scales(&scales.clone().with_format(format)).unwrap());
    assert_ne!(structure(&int8), structure(&model));
    assert_ne!(structure(&int8), structure(&fp8));
    assert_eq!(int8.scales(), Some(&scales));
}
