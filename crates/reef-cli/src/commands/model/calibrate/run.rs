//! The command and its report.

use super::args::Args;
use super::deviation::Deviations;
use super::measure::{Calibrate, Found};
use super::samples::Samples;
use crate::report::checks::check_file;
use crate::report::device::resolve;
use crate::report::output::{count, print};
use crate::report::progress::Progress;
use anyhow::Result;
use reef::models::kinds::quantized_steps;
use serde_json::{Value, json};

pub(crate) fn run(args: &Args) -> Result<()> {
    check_file(&args.out)?;
    let device = resolve(&args.device)?;
    let model = args.sizes.opened(&args.model).seed(args.seed).read()?;
    let all = Samples::new(&args.model, &model)?;
    let (samples, checks) = (args.samples(&all)?, args.checks(&all)?);
    let progress = Progress::new(2, args.json);
    progress.begin(&format!("samples on {device}"));
    let calibrate = Calibrate { args, model: &model, samples, checks: &checks };
    let found = reef::with_device(&device, calibrate)??;
    let scales = &found.scales;
    scales.save(&args.out)?;
    progress.begin("floats, by plain loops");
    let (floats, _) = found.model.image()?;
    let deviations = (!checks.is_empty()).then(|| found.deviations(&checks)).transpose()?;
    progress.finish();
    let by = if found.outputs.is_some() { &device } else { "plain loops" };
    if args.json {
        return print(serde_json::to_string_pretty(&facts(args, &found, deviations.as_ref(), by))?);
    }
    let (format, out) = (scales.format().name(), args.out.display());
    let (storages, seen) = (scales.iter().count(), count(scales.samples(), "sample"));
    print(format_args!("{out}: {format}, {} of {seen}", count(storages, "storage")))?;
    let (steps, eight) = (floats.layers().len(), quantized_steps(&found.planned));
    print(format_args!("{eight} of {steps} steps in numbers of 8 bits"))?;
    deviations.map_or(Ok(()), |deviations| report(&deviations, by))
}

fn facts(args: &Args, found: &Found, deviations: Option<&Deviations>, by: &str) -> Value {
    json!({
        "file": args.out.display().to_string(),
        "network": found.scales.network(),
        "format": found.scales.format().name(),
        "percentile": found.scales.percentile(),
        "samples": found.scales.samples(),
        "storages": found.scales.iter().count(),
        "steps": found.planned.layers().len(),
        "steps_of_8_bits": quantized_steps(&found.planned),
        "error": deviations.map(Deviations::json),
        "error_by": by,
    })
}

/// Prints the error of some images.
fn report(deviations: &Deviations, by: &str) -> Result<()> {
    let images = deviations.each.len();
    print(format_args!("error against floats, {}, {by}:", count(images, "image")))?;
    print(format_args!(
        "  differences: {:.2e} of the largest output at most, {:.2e} in the mean",
        deviations.largest(),
        deviations.mean()
    ))?;
    print(format_args!("  cosine: {:.5} at least", deviations.cosine()))?;
    print(format_args!("  equal top class: {} of {images}", deviations.same_classes()))
}
