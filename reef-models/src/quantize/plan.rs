//! Layouts of a network whose numbers have 8 bits where kernels take them.

use super::scales::Scales;
use super::storages::storages;
use crate::errors::error::{Error, Result};
use crate::graph::schedule::Work;
use crate::model::image_model::{ImageModel, Layer};
use reef_op::{Layout, Op, Operators, Quantization, Quantized, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns what kernels take at most: convolutions without groups, and pools.
pub fn full_quantization(op: &Op) -> Quantization {
    match op {
        Op::Conv2d(op) if op.groups == 1 => {
            Quantization { input: true, output: true, keeps: false }
        }
        Op::Pool2d(_) => Quantization { keeps: true, ..Quantization::default() },
        _ => Quantization::default(),
    }
}

/// Returns the network with layouts of 8 bits where `allowed` says that kernels take them. Without
/// any it is the same network.
///
/// # Errors
///
/// `Scales` if they are of another network.
pub fn plan(
    model: &ImageModel,
    scales: &Scales,
    allowed: impl Fn(&Op) -> Quantization,
) -> Result<ImageModel> {
    scales.check(model)?;
    let groups = storages(model, allowed);
    let mut graph = model.graph().clone();
    let mut largest = BTreeMap::new();
    for (storage, group) in graph.storages.iter().zip(&groups) {
        let (Some(group), Some(own)) = (group, scales.largest(&storage.name)) else { continue };
        let largest: &mut f32 = largest.entry(*group).or_default();
        *largest = largest.max(own);
    }
    let layout = |group: &Option<usize>| {
        let largest = group.and_then(|group| largest.get(&group)).filter(|largest| **largest > 0.0);
        let scale = scales.format().scale_of(*largest?);
        Quantized::new(scales.format(), scale).map(Layout::Quantized)
    };
    let layouts: Vec<Option<Layout>> = groups.iter().map(layout).collect();
    let mut layers = Vec::with_capacity(model.layers().len());
    for (step, layer) in graph.steps.iter_mut().zip(model.layers()) {
        let op = with_layouts(layer.op, [layouts[step.reads[0]], layouts[step.writes]]);
        step.work = Work::Op(op);
        layers.push(Layer { op, constants: layer.constants.clone() });
    }
    Ok(ImageModel::new(graph, layers).with_ports_of(model))
}

/// As [`plan`], for a device. Without scales it is the network as it is.
///
/// # Errors
///
/// `Scales` if they are of another network or no step of it can have numbers of 8 bits;
/// `Unsupported` if the device's kernels take none.
pub(crate) fn plan_for<D: Operators>(
    device: &D,
    model: &Arc<ImageModel>,
    scales: Option<&Scales>,
) -> Result<Arc<ImageModel>> {
    let Some(scales) = scales else { return Ok(model.clone()) };
    device.foresee(&model.layers().iter().map(|layer| &layer.op).collect::<Vec<_>>());
    let planned = plan(model, scales, |op| device.quantization(op, scales.format()))?;
    if quantized_steps(&planned) > 0 {
        return Ok(planned.into());
    }
    check_any(model, scales).map_err(|why| refused(model, format!("{why}: leave them out")))?;
    let (device, format) = (device.info().name, scales.format().name());
    let name = &model.graph().name;
    let what = format!(
        "{name} in {format}: {device} has no kernels that take steps of it: leave the scales out, \
         or take a CUDA device of compute capability 8.0 or more with precision=fp16"
    );
    Err(reef_core::Error::Unsupported { backend: D::NAME, what }.into())
}

/// Refuses scales with which a device that has all kernels takes no step in numbers of 8 bits.
pub(crate) fn check_any(model: &ImageModel, scales: &Scales) -> Result<(), String> {
    let planned = plan(model, scales, full_quantization).map_err(|error| error.to_string())?;
    let is_any = quantized_steps(&planned) > 0;
    is_any.then_some(()).ok_or_else(|| "scales: no step of it can have numbers of 8 bits".into())
}

fn refused(model: &ImageModel, why: String) -> Error {
    Error::Scales { file: model.graph().name.clone(), why }
}

/// Returns the number of steps that read or write numbers of 8 bits.
pub fn quantized_steps(model: &ImageModel) -> usize {
    let tensors = |op: &Op| [op.input().layout, op.output().layout];
    let is_eight = |layer: &&Layer| tensors(&layer.op).iter().any(|l| l.quantized().is_some());
    model.layers().iter().filter(is_eight).count()
}

/// The operation with other layouts of its input and output.
fn with_layouts(mut op: Op, layouts: [Option<Layout>; 2]) -> Op {
    for (tensor, layout) in ends(&mut op).into_iter().zip(layouts) {
        tensor.layout = layout.unwrap_or(tensor.layout);
    }
    op
}

/// Input and output.
fn ends(op: &mut Op) -> [&mut Tensor; 2] {
    match op {
        Op::Conv2d(op) => [&mut op.input, &mut op.output],
        Op::Pool2d(op) => [&mut op.input, &mut op.output],
        Op::ScaleShift(op) => [&mut op.input, &mut op.output],
        Op::Linear(op) => [&mut op.input, &mut op.output],
        Op::Activate(op) => [&mut op.input, &mut op.output],
        Op::Multiply(op) => [&mut op.input, &mut op.output],
    }
}
