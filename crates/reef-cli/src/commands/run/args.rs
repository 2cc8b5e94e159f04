//! Arguments of `reef run`.

use crate::report::usage::Usage;
use crate::report::{device, size};
use crate::workload::networks::Sizes;
use crate::workload::stopping::StopArgs;
use crate::workload::tensors::shape;
use anyhow::Result;
use reef::models::image::Transform;
use reef::models::{self, Budget, Model};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Largest side after resizing: more would be a typing error.
const MAX_SIDE: usize = 16_384;
/// Classes that are printed unless `--top` says it.
const TOP: usize = 5;

#[derive(clap::Args, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Model: a name of `reef model list`, a folder or an ONNX file.
    pub(crate) model: String,
    /// Images (JPEG or PNG) to classify, or arrays for the inputs of an ONNX file, one for each
    /// input.
    #[arg(required_unless_present = "out", value_name = "IMAGE|NAME=FILE.npy")]
    pub(crate) images: Vec<PathBuf>,
    /// Arrays for inputs, as `NAME=FILE.npy`: [`take_arrays`](Self::take_arrays) finds them.
    #[arg(skip)]
    pub(crate) input: Vec<String>,
    /// Sizes that the file leaves open, by the name of an input or of a size; those of given arrays
    /// are known.
    #[arg(long, value_name = "NAME=1,3,224,224", value_parser = shape)]
    pub(crate) shape: Vec<(String, Vec<usize>)>,
    /// Iterations after which loops of an ONNX file that data end have ended [default: the trip
    /// count or 64].
    #[arg(long, value_name = "N")]
    pub(crate) loop_bound: Option<usize>,
    /// Folder to save the outputs in, as .npy files.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run it again with preemptions at random times, which must not change a bit.
    #[arg(long)]
    pub(crate) preempt: bool,
    /// Weights of a network that is built, .safetensors or .param; without them they are made up.
    #[arg(long)]
    pub(crate) weights: Option<PathBuf>,
    #[arg(long, default_value = device::AUTO, help = device::HELP)]
    pub(crate) device: String,
    /// File with the name of a class on each line.
    #[arg(long)]
    pub(crate) labels: Option<PathBuf>,
    /// Number of classes to print [default: 5].
    #[arg(long)]
    pub(crate) top: Option<usize>,
    /// Rows and columns of images, where the model does not fix them.
    #[arg(long)]
    pub(crate) size: Option<usize>,
    /// Shorter side after resizing, before the middle is cut out [default: 8/7 of the size].
    #[arg(long)]
    pub(crate) resize: Option<usize>,
    /// Mean of red, green and blue in 0..1, to subtract [default: torchvision's for the network].
    #[arg(long, value_name = "R,G,B", value_parser = colours)]
    pub(crate) mean: Option<[f32; 3]>,
    /// Standard deviation of red, green and blue, to divide by [default: torchvision's for the
    /// network].
    #[arg(long, value_name = "R,G,B", value_parser = colours)]
    pub(crate) std: Option<[f32; 3]>,
    /// Limit of the memory for reading, such as 512MiB; 0 for none.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "2GiB")]
    pub(crate) memory: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) stop: StopArgs,
}

/// Reads `0.5,0.5,0.5`.
fn colours(text: &str) -> Result<[f32; 3], String> {
    let numbers: Result<Vec<f32>, _> = text.split(',').map(str::parse).collect();
    let three = numbers.ok().and_then(|numbers| <[f32; 3]>::try_from(numbers).ok());
    let three = three.filter(|three| three.iter().all(|number| number.is_finite()));
    three.ok_or_else(|| format!("must be three numbers, such as 0.5,0.5,0.5, got {text:?}"))
}

impl Args {
    /// The memory that reading may take.
    pub(crate) fn budget(&self) -> Budget {
        size::budget(self.memory)
    }

    /// Takes arrays out of the images: `NAME=FILE.npy`, unless there is a file of that name.
    pub(crate) fn take_arrays(&mut self) -> Result<(), Usage> {
        let is_array = |given: &PathBuf| {
            !given.exists() && given.to_str().is_some_and(|text| text.contains('='))
        };
        let (arrays, images) = std::mem::take(&mut self.images).into_iter().partition(is_array);
        let arrays: Vec<PathBuf> = arrays;
        self.images = images;
        let is_array = |image: &&PathBuf| image.extension().is_some_and(|of| of == "npy");
        if let Some(array) = self.images.iter().find(is_array) {
            let array = array.display();
            let why = format!("{array}: must have the name of an input before it: NAME={array}");
            return Err(Usage(why));
        }
        self.input.extend(arrays.iter().map(|array| array.to_string_lossy().into_owned()));
        Ok(())
    }

    /// Returns whether arrays go in and out instead of images.
    pub(crate) fn is_about_arrays(&self) -> bool {
        !self.input.is_empty() || self.out.is_some()
    }

    /// Largest number of classes to print.
    pub(crate) fn top(&self) -> usize {
        self.top.unwrap_or(TOP)
    }

    /// Refuses options that have no effect on arrays.
    pub(crate) fn check_arrays(&self) -> Result<(), Usage> {
        let of_images = [
            ("--labels", self.labels.is_some()),
            ("--top", self.top.is_some()),
            ("--resize", self.resize.is_some()),
            ("--mean", self.mean.is_some()),
            ("--std", self.std.is_some()),
        ];
        if let Some((option, _)) = of_images.iter().find(|(_, is_given)| *is_given) {
            return Err(Usage(format!("{option}: that is for images, not for arrays")));
        }
        let model = self.model.as_str();
        if models::NAMES.contains(&model) || models::TENSOR_NAMES.contains(&model) {
            return Ok(());
        }
        if self.weights.is_some() {
            return Err(Usage(format!("--weights: {model} brings its own weights")));
        }
        if self.size.is_some() {
            let text = "--size: an array has its sizes; --shape NAME=… has those of an input";
            return Err(Usage(text.into()));
        }
        Ok(())
    }

    /// Sizes that the model leaves open.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes { size: self.size, shape: self.shape.clone(), loop_bound: self.loop_bound }
    }

    /// Returns whether weights are made up, so that the output means nothing.
    pub(crate) fn is_made_up(&self) -> bool {
        self.weights.is_none() && models::NAMES.contains(&self.model.as_str())
    }

    /// Torchvision's transform for the network, but for what the command line says.
    pub(crate) fn transform(&self, model: &Model) -> Result<Transform> {
        let usual = Transform::of_model(&self.model, model)?;
        let resize = self.resize.unwrap_or(usual.resize);
        if !(usual.crop..=MAX_SIDE).contains(&resize) {
            let range = format!("from {} to {MAX_SIDE}", usual.crop);
            return Err(Usage(format!("--resize must be {range}, got {resize}")).into());
        }
        if self.std.is_some_and(|std| std.contains(&0.0)) {
            return Err(Usage("--std: nothing can be divided by 0".into()).into());
        }
        let (mean, deviation) =
            (self.mean.unwrap_or(usual.mean), self.std.unwrap_or(usual.deviation));
        Ok(Transform { resize, mean, deviation, ..usual })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_read() {
        assert_eq!(colours("0.5,1,-2"), Ok([0.5, 1.0, -2.0]));
        for wrong in ["", "1", "1,2", "1,2,3,4", "1,2,x", "1,2,nan"] {
            assert!(colours(wrong).unwrap_err().contains("such as 0.5,0.5,0.5"), "{wrong}");
        }
    }
}
