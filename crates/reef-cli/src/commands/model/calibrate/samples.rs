//! Samples of a network's inputs: images, arrays of numpy, or made up.

use crate::report::usage::Usage;
use anyhow::{Context, Result};
use reef::models::image::Transform;
use reef::models::{Budget, Model, Seeded, npy};
use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// Endings of files that a folder is searched for.
const ENDINGS: [&str; 4] = ["npy", "png", "jpg", "jpeg"];

/// Inputs of a network, made or read when they are asked for.
pub(super) type Inputs<'a> = Box<dyn Iterator<Item = Result<Input>> + 'a>;

/// An input of a network.
pub(super) struct Input {
    pub(super) values: Vec<f32>,
    /// Images of its own. Those after them are the first ones again, and fill the batch.
    pub(super) images: usize,
}

/// Makes and reads inputs of a network, each with all images of its batch.
pub(super) struct Samples<'a> {
    network: &'a str,
    model: &'a Model,
    /// Values of an image.
    image: usize,
}

impl<'a> Samples<'a> {
    /// Samples for a model that was opened as `network`.
    pub(super) fn new(network: &'a str, model: &'a Model) -> Result<Self> {
        let batch = model.image()?.0.input().batch;
        Ok(Self { network, model, image: model.input_len() / batch })
    }

    /// Made-up inputs: those of some seeds after the first one. The seed after the last is 0.
    pub(super) fn made_up(&self, first: u64, seeds: Range<u64>) -> Inputs<'_> {
        let made = move |seed| Seeded(first.wrapping_add(seed)).input(self.model.input_len());
        Box::new(seeds.map(move |seed| Ok(self.filled(&made(seed)))))
    }

    /// Inputs of files and folders, at most `most` of them. After an error the next file follows.
    pub(super) fn read(&self, option: &str, paths: &[PathBuf], most: u64) -> Result<Inputs<'_>> {
        let all = paths.iter().map(|path| files(option, path));
        let mut files = all.collect::<Result<Vec<_>>>()?.into_iter().flatten();
        let (len, mut rest) = (self.model.input_len(), VecDeque::new());
        let next = move || {
            while rest.len() < len {
                let Some(file) = files.next() else { break };
                match self.images(&file) {
                    Ok(images) => rest.extend(images),
                    Err(error) => return Some(Err(error)),
                }
            }
            let own: Vec<f32> = rest.drain(..len.min(rest.len())).collect();
            (!own.is_empty()).then(|| Ok(self.filled(&own)))
        };
        Ok(Box::new(iter::from_fn(next).take(most as usize)))
    }

    /// Images of a file.
    fn images(&self, file: &Path) -> Result<Vec<f32>> {
        if ending(file).is_none_or(|ending| ending != "npy") {
            return Ok(Transform::of_model(self.network, self.model)?.read(file)?);
        }
        let name = file.display().to_string();
        let bytes =
            reef_files::read(file, reef_files::MAX_INPUT_BYTES).with_context(|| name.clone())?;
        let (spec, array) = npy::from_bytes(&bytes, &name, &Budget::default())?;
        let values = array.values().to_f64();
        if values.is_empty() || !values.len().is_multiple_of(self.image) {
            let (have, want) = (values.len(), self.image);
            let why = format!("{name}: must have a multiple of {want} values, got {have} ({spec})");
            return Err(Usage(why).into());
        }
        Ok(values.into_iter().map(|value| value as f32).collect())
    }

    /// An input whose missing images are the first ones again.
    fn filled(&self, own: &[f32]) -> Input {
        let values = own.iter().copied().cycle().take(self.model.input_len()).collect();
        Input { values, images: own.len() / self.image }
    }
}

/// Ending of a file's name in small letters.
fn ending(file: &Path) -> Option<String> {
    file.extension().map(|ending| ending.to_string_lossy().to_lowercase())
}

/// The file, or those of the folder in the order of their names.
fn files(option: &str, path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let shown = || format!("{option} {}", path.display());
    let entries = fs::read_dir(path).with_context(shown)?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|file| ending(file).is_some_and(|ending| ENDINGS.contains(&&*ending)));
    if files.is_empty() {
        return Err(Usage(format!("{}: must have .npy, .png or .jpg files", shown())).into());
    }
    files.sort();
    Ok(files)
}
