//! A run that may stop in its middle, and one that continues there.

use super::args::Args;
use super::infer::Prediction;
use super::note::Note;
use crate::report::output::print;
use crate::report::usage::Usage;
use crate::workload::stopping::{RunEnd, Stop};
use crate::workload::tensors::{InputArrays, outputs};
use anyhow::{Context, Result};
use reef::models::{Model, Network};
use reef::op::Operators;
use reef::tensor::Array;
use reef::{Parked, Seq};
use reef_snapshot::{Position, Snapshot, Work, Written, write};
use serde_json::{Value, json};
use std::time::Duration;

/// Inputs: one image after the other, or arrays once.
pub(crate) enum Inputs<'a> {
    Images(&'a [Vec<f32>]),
    Arrays(&'a InputArrays),
}

/// A run on whichever device was named.
pub(crate) struct Stoppable<'a> {
    pub(crate) args: &'a Args,
    pub(crate) model: &'a Model,
    pub(crate) inputs: Inputs<'a>,
    pub(crate) stop: &'a Stop,
    pub(crate) from: Option<(Snapshot, Note)>,
}

/// Result of a run.
pub(crate) enum Outcome {
    Images(Vec<Prediction>),
    Arrays(Vec<Array>, Duration),
    /// It stopped after this number of images.
    Stopped(Written, usize),
}

impl reef::Visit for Stoppable<'_> {
    type Output = Result<Outcome>;

    fn visit<D: Operators>(mut self, device: D) -> Self::Output {
        let network = self.model.load(&device)?;
        let work = Work::of_network(&device, self.model, &network);
        let (mut seen, mut spent, mut rest) = (Vec::new(), Duration::ZERO, None);
        if self.stop.folder.is_some() {
            self.note(&seen, spent)?; // rather now than when it stops
        }
        if let Some((mut snapshot, note)) = self.from.take() {
            rest = Some(snapshot.restore(&work)?).filter(|left| !left.commands().is_empty());
            (seen, spent) = (note.predictions(), note.spent());
        }
        let count = match self.inputs {
            Inputs::Images(images) => images.len(),
            Inputs::Arrays(_) => 1,
        };
        for index in seen.len()..count {
            let left = match rest.take() {
                Some(left) => left,
                None => {
                    self.stage(&network, index)?;
                    Parked::new(Seq(0), work.task.to_vec(), None)?
                }
            };
            let begin = device.clock();
            let ended = self.stop.run(&device, left)?;
            spent += device.clock() - begin;
            if let RunEnd::Parked(left) = ended {
                return self.write(&work, &left, &seen, spent);
            }
            if let Inputs::Arrays(_) = self.inputs {
                return Ok(Outcome::Arrays(outputs(&network)?, spent));
            }
            let time = std::mem::take(&mut spent);
            seen.push(Prediction { logits: network.staged_output()?, time });
            if self.stop.is_due() && seen.len() < count {
                let left = Parked::new(Seq(0), Vec::new(), None)?;
                return self.write(&work, &left, &seen, spent);
            }
        }
        Ok(Outcome::Images(seen))
    }
}

impl Stoppable<'_> {
    /// Puts an input where the inference copies it from.
    fn stage<D: Operators>(&self, network: &Network<D>, index: usize) -> Result<()> {
        match self.inputs {
            Inputs::Images(images) => Ok(network.stage_input(&images[index])?),
            Inputs::Arrays(given) => {
                for (index, (_, port)) in network.inputs().iter().enumerate() {
                    let missing =
                        || Usage(format!("input {}=FILE.npy is missing: {}", port.name, port.spec));
                    network.stage(index, &given.get(&port.name).ok_or_else(missing)?.1)?;
                }
                Ok(())
            }
        }
    }

    fn write<D: Operators>(
        &self,
        work: &Work<'_, D>,
        left: &Parked<D>,
        seen: &[Prediction],
        spent: Duration,
    ) -> Result<Outcome> {
        let folder = self.stop.folder.as_ref().expect("nothing stops without a folder");
        let note = self.note(seen, spent)?;
        Ok(Outcome::Stopped(write(folder, work, left, note)?, seen.len()))
    }

    fn note(&self, seen: &[Prediction], spent: Duration) -> Result<Value> {
        let note = Note::of(self.args, seen, spent)?;
        serde_json::to_value(note).context("the command line cannot be stored in a snapshot")
    }
}

/// Says where the run has stopped, and how it is finished.
pub(crate) fn say_stopped(args: &Args, stop: &Stop, written: Written, seen: usize) -> Result<()> {
    let Written { bytes, position, .. } = written;
    let Position { at, commands, blocks, .. } = position;
    let folder = stop.folder.clone().unwrap_or_default();
    if args.json {
        return print(serde_json::to_string_pretty(&json!({ "stopped": {
            "snapshot": folder.display().to_string(),
            "bytes": bytes,
            "images_seen": seen,
            "command": at,
            "commands": commands,
            "blocks_left": blocks.map(|(left, _)| left),
            "blocks": blocks.map(|(_, all)| all),
        } }))?);
    }
    let image = match args.images.len() {
        0 => String::new(),
        all if position.is_between() => format!(" after image {seen} of {all}"),
        all => format!(" in image {} of {all}", seen + 1),
    };
    let is_inside = !position.is_between();
    let command = is_inside.then(|| format!(", at command {at} of {commands}"));
    let command = command.unwrap_or_default();
    let blocks = blocks.map(|(left, all)| format!(", {left} of {all} blocks left"));
    let blocks = blocks.unwrap_or_default();
    let folder = folder.display();
    let size = bytes as f64 / 1e6;
    print(format_args!("stopped{image}{command}{blocks}: {size:.1} MB"))?;
    print(format_args!("reef restore {folder} finishes it"))
}
