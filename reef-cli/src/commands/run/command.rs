//! Reads what was named, runs it and shows what was seen.

use super::args::Args;
use super::infer::Run;
use super::report::{self, Labels};
use super::{program, tensors};
use crate::report::device::resolve;
use crate::report::usage::Usage;
use crate::workload::networks;
use crate::workload::program::is_program;
use anyhow::Result;
use reef::models::{self, Model};
use std::path::PathBuf;

pub(crate) fn run(mut args: Args) -> Result<()> {
    args.take_arrays()?;
    args.device = resolve(&args.device)?;
    let args = &args;
    if is_program(&args.model) {
        return program::run(args);
    }
    if args.is_about_arrays() {
        return tensors::run(args);
    }
    if args.preempt {
        return Err(Usage("--preempt: that is for arrays, not for pictures".into()).into());
    }
    let model = open(args)?;
    let classes = model.picture()?.0.output().channels;
    if !(1..=classes).contains(&args.top) {
        return Err(Usage(format!("--top must be in 1..={classes}, got {}", args.top)).into());
    }
    let labels = args.labels.as_deref().map(|file| Labels::load(file, classes)).transpose()?;
    let transform = args.transform(&model)?;
    let read = |image: &PathBuf| transform.read(image);
    let pictures = args.images.iter().map(read).collect::<models::Result<Vec<_>>>()?;
    let seen = reef::with_device(&args.device, Run { args, model, pictures: &pictures })??;
    report::show(args, &seen, labels.as_ref())
}

/// The network, with the weights that were named.
fn open(args: &Args) -> Result<Model> {
    let model = networks::open(&args.model, args.size)?;
    let Some(file) = &args.weights else { return Ok(model) };
    if !models::NAMES.contains(&args.model.as_str()) {
        let what = format!("--weights: {} brings its own weights", args.model);
        return Err(Usage(what).into());
    }
    let extension = file.extension().and_then(|extension| extension.to_str());
    if !matches!(extension, Some("safetensors" | "param")) {
        let what = format!("--weights {}: a file is .safetensors or .param", file.display());
        return Err(Usage(what).into());
    }
    Ok(Model::open(&args.model).weights(file).input_size(args.size).batch(1).read()?)
}
