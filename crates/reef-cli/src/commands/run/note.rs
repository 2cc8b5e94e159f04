//! Note of a run in its snapshot: the command line, and the results so far.

use super::args::Args;
use super::infer::Prediction;
use crate::report::usage::Usage;
use anyhow::{Context, Result};
use reef_snapshot::{Digest, Snapshot};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A run that was stopped.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Note {
    /// Names of files are relative to it.
    folder: PathBuf,
    pub(crate) args: Args,
    /// Digest of each image's file.
    images: Vec<Digest>,
    /// Images that were seen.
    seen: Vec<StoredPrediction>,
    /// Time that the one after them has taken.
    spent: Duration,
}

/// Output for an image, bit by bit.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPrediction {
    logits: Vec<u32>,
    time: Duration,
}

impl Note {
    pub(crate) fn of(args: &Args, seen: &[Prediction], spent: Duration) -> Result<Self> {
        let seen = seen.iter().map(|Prediction { logits, time }| StoredPrediction {
            logits: logits.iter().map(|value| value.to_bits()).collect(),
            time: *time,
        });
        Ok(Self {
            folder: std::env::current_dir().context("the current folder")?,
            args: args.clone(),
            images: args.images.iter().map(digest).collect::<Result<_>>()?,
            seen: seen.collect(),
            spent,
        })
    }

    /// Reads the note of a snapshot, and goes to the folder of the run.
    pub(crate) fn read(folder: &Path, snapshot: &Snapshot) -> Result<Self> {
        let note = serde_json::from_value(snapshot.manifest().note.clone());
        let note: Self = note.map_err(|why| {
            Usage(format!("{}: not written by `reef run --checkpoint`: {why}", folder.display()))
        })?;
        let gone = || Usage(format!("{}: the run's folder must exist", note.folder.display()));
        std::env::set_current_dir(&note.folder).map_err(|_| gone())?;
        if note.seen.len() > note.args.images.len() {
            let text = format!("{}: more images were seen than given", folder.display());
            return Err(Usage(text).into());
        }
        for (image, want) in note.args.images.iter().zip(&note.images).skip(note.seen.len()) {
            if digest(image)? != *want {
                let text = format!("{}: must be the file of the snapshot", image.display());
                return Err(Usage(text).into());
            }
        }
        Ok(note)
    }

    pub(crate) fn predictions(&self) -> Vec<Prediction> {
        let prediction = |seen: &StoredPrediction| Prediction {
            logits: seen.logits.iter().map(|&bits| f32::from_bits(bits)).collect(),
            time: seen.time,
        };
        self.seen.iter().map(prediction).collect()
    }

    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }
}

fn digest(image: &PathBuf) -> Result<Digest> {
    let bytes = reef_files::read(image, reef_files::MAX_INPUT_BYTES)
        .map_err(|why| Usage(format!("{}: {why}", image.display())))?;
    Ok(Digest::of(&bytes))
}
