//! Networks with numbers of 8 bits between their steps.

mod calibration;
pub(crate) mod device;
#[cfg(feature = "onnx")]
mod files;
mod layouts;
mod loading;
mod values;

use reef_models::kinds::{ImageModel, reference};
use reef_models::{Model, Scales, Seeded};
use reef_op::Format;

/// A network by name, and scales of its values for a made-up image, by plain loops.
fn scaled(name: &str, size: usize, format: Format) -> (Model, Scales) {
    let model = Model::open(name).input_size(size).read().unwrap();
    let (image, tensors) = model.image().unwrap();
    let input = Seeded(1).input(model.input_len());
    let storages = reference::execute_all(image, tensors, &input).unwrap();
    let largest = |values: &[f32]| values.iter().fold(0f32, |most, x| most.max(x.abs()));
    let names = image.graph().storages.iter().map(|storage| storage.name.as_str());
    let all = names.zip(storages.iter().map(|values| largest(values)));
    let scales = text(name, format, all);
    (model, Scales::from_json(&scales, name).unwrap())
}

/// The text of a file of scales.
fn text<'a>(
    network: &str,
    format: Format,
    largest: impl IntoIterator<Item = (&'a str, f32)>,
) -> String {
    let largest = largest.into_iter().map(|(name, value)| format!("{name:?}: {value}"));
    let largest = largest.collect::<Vec<_>>().join(", ");
    format!(
        "{{\"kind\": \"reef-scales\", \"version\": 1, \"network\": {network:?}, \
         \"format\": {:?}, \"percentile\": 100, \"samples\": 1, \"largest\": {{{largest}}}}}",
        format.name()
    )
}

/// Scale of a storage's numbers of 8 bits, by the storage's name. All of its tensors have it.
fn scale_of(model: &ImageModel, name: &str) -> Option<f32> {
    let at = model.graph().storage(name).unwrap_or_else(|| panic!("no storage {name}"));
    let steps = model.graph().steps.iter().zip(model.layers());
    let layouts = steps.flat_map(|(step, layer)| {
        let residual = step.reads.get(1).zip(layer.op.second());
        let ends = [(&step.reads[0], layer.op.input()), (&step.writes, layer.op.output())];
        let of = |(storage, tensor): (&usize, _)| (*storage == at).then_some(tensor);
        ends.into_iter().chain(residual).filter_map(of).map(|tensor| tensor.layout)
    });
    let layouts: Vec<_> = layouts.collect();
    assert!(layouts.iter().all(|layout| *layout == layouts[0]), "{name}: {layouts:?}");
    layouts[0].quantized().map(|numbers| numbers.scale())
}
