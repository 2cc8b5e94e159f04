//! The calibration, and the outputs with its scales.

use super::args::Args;
use super::deviation::{Deviation, Deviations};
use super::samples::{Input, Inputs};
use crate::workload::tensors::run_once;
use anyhow::Result;
use reef::models::kinds::{ImageModel, full_quantization, plan, reference};
use reef::models::{self, Model, Scales};
use reef::op::Operators;
use std::sync::Arc;
use std::thread;

/// The calibration, on whichever device was named.
pub(super) struct Calibrate<'a> {
    pub(super) args: &'a Args,
    pub(super) model: &'a Model,
    /// Made or read one at a time.
    pub(super) samples: Inputs<'a>,
    /// Samples that the error is measured with.
    pub(super) checks: &'a [Input],
}

/// A model with its scales.
pub(super) struct Found {
    pub(super) model: Model,
    pub(super) scales: Scales,
    /// Its layouts on the device, or else on one that has all kernels.
    pub(super) planned: Arc<ImageModel>,
    /// Outputs of the device for the checks, if it has kernels.
    pub(super) outputs: Option<Vec<Vec<f32>>>,
}

impl reef::Visit for Calibrate<'_> {
    type Output = Result<Found>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let Self { args, model, samples, checks } = self;
        let mut failed = None;
        let samples =
            samples.map_while(|input| Some(input.map_err(|e| failed = Some(e)).ok()?.values));
        let found = model.calibrate(&device, args.format.into(), args.percentile, samples);
        if let Some(error) = failed {
            return Err(error);
        }
        let scales = found?;
        let model = model.clone().with_scales(&scales)?;
        match model.image_on(&device) {
            Ok(planned) => {
                let network = model.load(&device)?;
                let infer = |input: &Input| -> Result<_> {
                    network.stage_input(&input.values)?;
                    run_once(&device, &network.inference())?;
                    Ok(network.staged_output()?)
                };
                let outputs = Some(checks.iter().map(infer).collect::<Result<_>>()?);
                Ok(Found { model, scales, planned, outputs })
            }
            Err(models::Error::Device(reef::Error::Unsupported { .. })) => {
                let planned = plan(model.image()?.0, &scales, full_quantization)?.into();
                Ok(Found { model, scales, planned, outputs: None })
            }
            Err(other) => Err(other.into()),
        }
    }
}

impl Found {
    /// Distance of the outputs for each of the inputs' own images from those of floats.
    pub(super) fn deviations(&self, inputs: &[Input]) -> Result<Deviations> {
        let (floats, tensors) = self.model.image()?;
        let images = floats.input().batch;
        let mut each = Vec::new();
        for (k, Input { values, images: own }) in inputs.iter().enumerate() {
            let (have, want) = thread::scope(|scope| {
                let want = scope.spawn(|| reference::execute(floats, tensors, values));
                let have = match &self.outputs {
                    Some(outputs) => Ok(outputs[k].clone()),
                    None => reference::execute(&self.planned, tensors, values),
                };
                (have, want.join().expect("loops don't panic"))
            });
            let (have, want) = (have?, want?);
            let classes = want.len() / images;
            let pairs = have.chunks(classes).zip(want.chunks(classes)).take(*own);
            each.extend(pairs.map(|(have, want)| Deviation::of(have, want)));
        }
        Ok(Deviations { each })
    }
}
