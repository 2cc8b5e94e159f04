//! Reads what was named, runs it and shows what was seen.

use super::args::Args;
use super::infer::Run;
use super::note::Note;
use super::report::{self, Labels};
use super::stoppable::{Inputs, Outcome, Stoppable, say_stopped};
use super::{program, tensors};
use crate::report::device::resolve;
use crate::report::usage::Usage;
use crate::workload::networks::WEIGHTS;
use crate::workload::program::is_program;
use crate::workload::stopping::Stop;
use anyhow::Result;
use reef::models::{self, Model};
use reef_snapshot::Snapshot;
use std::path::PathBuf;

pub(crate) fn run(mut args: Args) -> Result<()> {
    args.take_arrays()?;
    if args.is_about_arrays() {
        args.check_arrays()?;
    }
    args.device = resolve(&args.device)?;
    let stop = Stop::begin(&args.stop)?;
    run_from(&args, &stop, None)
}

/// Runs it from the beginning, or from a snapshot.
pub(crate) fn run_from(args: &Args, stop: &Stop, from: Option<(Snapshot, Note)>) -> Result<()> {
    let may_stop = stop.folder.is_some() || from.is_some();
    if may_stop && (args.preempt || is_program(&args.model)) {
        let what = if args.preempt { "runs with --preempt" } else { "models with kernels" };
        return Err(Usage(format!("--checkpoint: {what} can't be stored")).into());
    }
    if is_program(&args.model) {
        return program::run(args);
    }
    if args.is_about_arrays() {
        return tensors::run(args, stop, from);
    }
    if args.preempt {
        let why = "--preempt is for arrays, not for images: use `reef model verify --preempt`";
        return Err(Usage(why.into()).into());
    }
    let model = open(args)?;
    let classes = model.image()?.0.output().channels;
    if let Some(top) = args.top.filter(|top| !(1..=classes).contains(top)) {
        return Err(Usage(format!("--top must be from 1 to {classes}, got {top}")).into());
    }
    let labels = args.labels.as_deref().map(|file| Labels::load(file, classes)).transpose()?;
    let transform = args.transform(&model)?;
    let read = |image: &PathBuf| transform.read(image);
    let images = args.images.iter().map(read).collect::<models::Result<Vec<_>>>()?;
    let seen = if may_stop {
        let inputs = Inputs::Images(&images);
        let run = Stoppable { args, model: &model, inputs, stop, from };
        match reef::with_device(&args.device, run)?? {
            Outcome::Stopped(written, seen) => return say_stopped(args, stop, written, seen),
            Outcome::Arrays(..) => unreachable!("images went in"),
            Outcome::Images(seen) => seen,
        }
    } else {
        reef::with_device(&args.device, Run { args, model, images: &images })??
    };
    report::show(args, &seen, labels.as_ref())
}

/// The network, with the weights that were named.
fn open(args: &Args) -> Result<Model> {
    let open = || args.sizes().opened(&args.model).budget(&args.budget());
    let model = open().seed(WEIGHTS.0).read()?;
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
    Ok(open().weights(file).batch(1).read()?)
}
