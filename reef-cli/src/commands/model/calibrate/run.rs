//! The calibration and its report.

use super::args::Args;
use super::deviation::{Deviation, Deviations};
use crate::report::checks::check_file;
use crate::report::device::resolve;
use crate::report::output::{count, print};
use crate::report::progress::Progress;
use crate::workload::tensors::run_once;
use anyhow::Result;
use reef::models::kinds::{PictureModel, full_quantization, plan, quantized_steps, reference};
use reef::models::{self, Model};
use reef::op::Operators;
use serde_json::json;
use std::sync::Arc;
use std::thread;

pub(crate) fn run(args: &Args) -> Result<()> {
    check_file(&args.out)?;
    let device = resolve(&args.device)?;
    let model = Model::open(&args.model).input_size(args.size).seed(args.seed).read()?;
    let [samples, checks] = args.read(&model)?;
    let progress = Progress::new(2, args.json);
    progress.begin(&format!("{} on {device}", count(samples.len(), "sample")));
    let found =
        reef::with_device(&device, Calibrate { args, model, samples: &samples, checks: &checks })??;
    let scales = found.model.scales().expect("they were just found");
    scales.save(&args.out)?;
    progress.begin("floats, by plain loops");
    let (floats, _) = found.model.picture()?;
    let deviations = (!checks.is_empty()).then(|| found.deviations(&checks)).transpose()?;
    progress.finish();
    let (steps, eight) = (floats.layers().len(), quantized_steps(&found.planned));
    let by = if found.outputs.is_some() { &device } else { "plain loops" };
    if args.json {
        return print(serde_json::to_string_pretty(&json!({
            "file": args.out,
            "network": scales.network(),
            "format": scales.format().name(),
            "percentile": scales.percentile(),
            "samples": scales.samples(),
            "storages": scales.iter().count(),
            "steps": steps,
            "steps_of_8_bits": eight,
            "error": deviations.as_ref().map(|deviations| deviations.json()),
            "error_by": by,
        }))?);
    }
    let (format, out) = (scales.format().name(), args.out.display());
    let (storages, seen) = (scales.iter().count(), count(scales.samples(), "sample"));
    print(format_args!("{out}: {format}, {} of {seen}", count(storages, "storage")))?;
    print(format_args!("{eight} of {steps} steps in numbers of 8 bits"))?;
    deviations.map_or(Ok(()), |deviations| report(&deviations, by))
}

/// Prints the error of some pictures.
fn report(deviations: &Deviations, by: &str) -> Result<()> {
    let pictures = deviations.each.len();
    print(format_args!("error against floats, {}, {by}:", count(pictures, "picture")))?;
    print(format_args!(
        "  differences: {:.2e} of the largest output at most, {:.2e} in the mean",
        deviations.largest(),
        deviations.mean()
    ))?;
    print(format_args!("  cosine: {:.5} at least", deviations.cosine()))?;
    print(format_args!("  equal top class: {} of {pictures}", deviations.same_classes()))
}

/// The calibration, on whichever device was named.
struct Calibrate<'a> {
    args: &'a Args,
    model: Model,
    samples: &'a [Vec<f32>],
    checks: &'a [Vec<f32>],
}

/// A model with its scales.
struct Found {
    model: Model,
    /// Its layouts on the device, or else on one that has all kernels.
    planned: Arc<PictureModel>,
    /// Outputs of the device for the checks, if it has kernels.
    outputs: Option<Vec<Vec<f32>>>,
}

impl reef::Visit for Calibrate<'_> {
    type Output = Result<Found>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let Self { args, model, samples, checks } = self;
        let samples = samples.iter().cloned();
        let scales = model.calibrate(&device, args.format.into(), args.percentile, samples)?;
        let model = model.with_scales(&scales)?;
        match model.picture_on(&device) {
            Ok(planned) => {
                let network = model.load(&device)?;
                let infer = |input: &Vec<f32>| -> Result<_> {
                    network.stage_input(input)?;
                    run_once(&device, &network.inference())?;
                    Ok(network.staged_output()?)
                };
                let outputs = Some(checks.iter().map(infer).collect::<Result<_>>()?);
                Ok(Found { model, planned, outputs })
            }
            Err(models::Error::Scales { .. }) => {
                let planned = plan(model.picture()?.0, &scales, full_quantization)?.into();
                Ok(Found { model, planned, outputs: None })
            }
            Err(other) => Err(other.into()),
        }
    }
}

impl Found {
    /// Distance of the outputs for each picture of these inputs from those of floats.
    fn deviations(&self, inputs: &[Vec<f32>]) -> Result<Deviations> {
        let (floats, tensors) = self.model.picture()?;
        let pictures = floats.input().batch;
        let mut each = Vec::new();
        for (k, input) in inputs.iter().enumerate() {
            let (have, want) = thread::scope(|scope| {
                let want = scope.spawn(|| reference::execute(floats, tensors, input));
                let have = match &self.outputs {
                    Some(outputs) => Ok(outputs[k].clone()),
                    None => reference::execute(&self.planned, tensors, input),
                };
                (have, want.join().expect("loops don't panic"))
            });
            let (have, want) = (have?, want?);
            let classes = want.len() / pictures;
            let pairs = have.chunks(classes).zip(want.chunks(classes));
            each.extend(pairs.map(|(have, want)| Deviation::of(have, want)));
        }
        Ok(Deviations { each })
    }
}
