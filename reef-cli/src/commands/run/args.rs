//! What `reef run` shows to which network.

use crate::report::usage::Usage;
use anyhow::Result;
use reef::models::picture::Transform;
use reef::models::{self, Budget, Model};
use std::path::PathBuf;

/// Largest side after resizing: more would be a typing error.
const MAX_SIDE: usize = 16_384;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Pictures, JPEG or PNG.
    #[arg(required_unless_present_any = ["input", "out"])]
    pub(crate) images: Vec<PathBuf>,
    /// An array for an input of an ONNX file, instead of pictures; once for each input.
    #[arg(long, value_name = "NAME=FILE.npy")]
    pub(crate) input: Vec<String>,
    /// Sizes that the file leaves open, by the name of an input or of a size; those of --input are known.
    #[arg(long, value_name = "NAME=1,3,224,224", value_parser = shape, requires = "input")]
    pub(crate) shape: Vec<(String, Vec<usize>)>,
    /// A folder for the outputs as .npy files; without --input of a network that has no inputs.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Runs it also with preemptions at random times, which must change no bit.
    #[arg(long)]
    pub(crate) preempt: bool,
    /// The network: a name that `reef model list` has, a folder or an ONNX file.
    #[arg(long)]
    pub(crate) model: String,
    /// Weights of a network that is built, .safetensors or .param; without them they are made up.
    #[arg(long)]
    pub(crate) weights: Option<PathBuf>,
    /// The device: cpu, cpu:0?units=4 and so on; `reef devices` lists what is there.
    #[arg(long, default_value = "cpu")]
    pub(crate) device: String,
    /// A file with the name of a class on each line.
    #[arg(long)]
    pub(crate) labels: Option<PathBuf>,
    /// How many classes are shown.
    #[arg(long, default_value_t = 5)]
    pub(crate) top: usize,
    /// Rows and columns of the picture, instead of the network's own.
    #[arg(long)]
    pub(crate) size: Option<usize>,
    /// The shorter side after resizing, before the middle is cut out [default: 8/7 of the size].
    #[arg(long)]
    pub(crate) resize: Option<usize>,
    /// What is subtracted from red, green and blue in 0..1 [default: torchvision's for the network].
    #[arg(long, value_name = "R,G,B", value_parser = colours)]
    pub(crate) mean: Option<[f32; 3]>,
    /// What they are divided by then [default: torchvision's for the network].
    #[arg(long, value_name = "R,G,B", value_parser = colours)]
    pub(crate) std: Option<[f32; 3]>,
    /// Most memory that reading an ONNX file for arrays may take, in MiB; 0 is no limit.
    #[arg(long, value_name = "MIB", default_value_t = Budget::USUAL >> 20)]
    pub(crate) memory: u64,
    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads `0.5,0.5,0.5`.
fn colours(text: &str) -> Result<[f32; 3], String> {
    let numbers: Result<Vec<f32>, _> = text.split(',').map(str::parse).collect();
    let three = numbers.ok().and_then(|numbers| <[f32; 3]>::try_from(numbers).ok());
    let three = three.filter(|three| three.iter().all(|number| number.is_finite()));
    three.ok_or_else(|| format!("want three numbers, such as 0.5,0.5,0.5; got {text:?}"))
}

/// Reads `x=1,3,224,224`.
fn shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let sizes = |list: &str| list.split(',').map(|size| size.parse().ok()).collect::<Option<_>>();
    let read = text.split_once('=').and_then(|(name, list)| Some((name.to_owned(), sizes(list)?)));
    read.ok_or_else(|| format!("want NAME=1,3,224,224; got {text:?}"))
}

impl Args {
    /// The memory that reading may take.
    pub(crate) fn budget(&self) -> Budget {
        Budget::of_mib(self.memory)
    }

    /// Whether arrays go in and out, and no pictures.
    pub(crate) fn is_about_arrays(&self) -> bool {
        !self.input.is_empty() || self.out.is_some()
    }

    /// Whether what the network sees means nothing.
    pub(crate) fn is_made_up(&self) -> bool {
        self.weights.is_none() && models::NAMES.contains(&self.model.as_str())
    }

    /// Torchvision's transform for the network, but for what the command line says.
    pub(crate) fn transform(&self, model: &Model) -> Result<Transform> {
        let usual = Transform::of_model(&self.model, model)?;
        let resize = self.resize.unwrap_or(usual.resize);
        if !(usual.crop..=MAX_SIDE).contains(&resize) {
            let range = format!("{}..={MAX_SIDE}", usual.crop);
            return Err(Usage(format!("--resize must be in {range}, got {resize}")).into());
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
