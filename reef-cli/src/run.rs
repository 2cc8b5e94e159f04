//! `reef run`: what a network sees in pictures.

mod labels;
mod report;

use crate::Usage;
use crate::networks;
use crate::progress::Progress;
use anyhow::Result;
use labels::Labels;
use reef::models::picture::Transform;
use reef::models::{self, Model, Network, Opened, Tensors, Weights, param::Params, safetensors};
use reef::op::Operators;
use reef::{Config, Seq, VirtualQueue};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Pictures, JPEG or PNG.
    #[arg(required = true)]
    images: Vec<PathBuf>,
    /// The network: a name that `reef model list` has, a folder or an ONNX file.
    #[arg(long)]
    model: String,
    /// Weights of a network that is built, .safetensors or .param; without them they are made up.
    #[arg(long)]
    weights: Option<PathBuf>,
    /// The device: cpu, cpu:0?units=4 and so on; `reef devices` lists what is there.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// A file with the name of a class on each line.
    #[arg(long)]
    labels: Option<PathBuf>,
    /// How many classes are shown.
    #[arg(long, default_value_t = 5)]
    top: usize,
    /// Rows and columns of the picture, instead of the network's own.
    #[arg(long)]
    size: Option<usize>,
    /// The shorter side after resizing, before the middle is cut out [default: 8/7 of the size].
    #[arg(long)]
    resize: Option<usize>,
    /// What is subtracted from red, green and blue in 0..1 [default: torchvision's for the network].
    #[arg(long, value_name = "R,G,B", value_parser = colours)]
    mean: Option<[f32; 3]>,
    /// What they are divided by then [default: torchvision's for the network].
    #[arg(long, value_name = "R,G,B", value_parser = colours)]
    std: Option<[f32; 3]>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Reads `0.5,0.5,0.5`.
fn colours(text: &str) -> Result<[f32; 3], String> {
    let numbers: Result<Vec<f32>, _> = text.split(',').map(str::parse).collect();
    let three = numbers.ok().and_then(|numbers| <[f32; 3]>::try_from(numbers).ok());
    let three = three.filter(|three| three.iter().all(|number| number.is_finite()));
    three.ok_or_else(|| format!("want three numbers, such as 0.5,0.5,0.5; got {text:?}"))
}

/// Largest side after resizing: more would be a typing error.
const LARGEST: usize = 16_384;

pub(crate) fn run(args: &Args) -> Result<()> {
    let opened = open(args)?;
    let classes = opened.model.output().channels;
    if !(1..=classes).contains(&args.top) {
        return Err(Usage(format!("--top must be in 1..={classes}, got {}", args.top)).into());
    }
    let labels = args.labels.as_deref().map(|file| Labels::load(file, classes)).transpose()?;
    let transform = args.transform(&opened.model)?;
    let read = |image: &PathBuf| transform.read(image);
    let pictures = args.images.iter().map(read).collect::<models::Result<Vec<_>>>()?;
    let seen = reef::with_device(&args.device, Run { args, opened, pictures: &pictures })??;
    report::show(args, &seen, labels.as_ref())
}

/// The network, with the weights that were named.
fn open(args: &Args) -> Result<Opened> {
    let opened = networks::open(&args.model, args.size)?;
    let Some(file) = &args.weights else { return Ok(opened) };
    if !models::NAMES.contains(&args.model.as_str()) {
        let what = format!("--weights: {} brings its own weights", args.model);
        return Err(Usage(what).into());
    }
    let params = read_weights(file)?;
    let params = opened.model.params(&params)?;
    Ok(Opened { tensors: Tensors::Read(params), ..opened })
}

fn read_weights(file: &Path) -> Result<Params> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => Ok(safetensors::load(file)?),
        Some("param") => Ok(Params::load(file)?),
        _ => {
            let what = format!("--weights {}: a file is .safetensors or .param", file.display());
            Err(Usage(what).into())
        }
    }
}

impl Args {
    /// Whether what the network sees means nothing.
    fn is_made_up(&self) -> bool {
        self.weights.is_none() && models::NAMES.contains(&self.model.as_str())
    }

    /// Torchvision's transform for the network, but for what the command line says.
    fn transform(&self, model: &Model) -> Result<Transform> {
        let usual = Transform::of_model(&self.model, model)?;
        let resize = self.resize.unwrap_or(usual.resize);
        if !(usual.crop..=LARGEST).contains(&resize) {
            let range = format!("{}..={LARGEST}", usual.crop);
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

/// What the network makes of one picture.
struct Seen {
    logits: Vec<f32>,
    /// From the submission of the first command until the last has finished.
    time: Duration,
}

/// One inference for each picture, on whichever device was named.
struct Run<'a> {
    args: &'a Args,
    opened: Opened,
    pictures: &'a [Vec<f32>],
}

impl reef::Visit for Run<'_> {
    type Output = Result<Vec<Seen>>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let Self { args, opened: Opened { model, tensors, .. }, pictures } = self;
        let progress = Progress::new(1 + pictures.len(), args.json);
        progress.begin(&format!("loading {}", args.model));
        let weights = Weights::pack(&device, &model, &tensors)?;
        let network = Network::new(&device, &model, &weights)?;
        let inference = network.inference();
        let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default())?;
        let mut seen = Vec::new();
        for (image, picture) in args.images.iter().zip(pictures) {
            progress.begin(&image.display().to_string());
            network.stage_input(picture)?;
            let begin = device.clock();
            let mut last = Seq(0);
            for command in inference.iter() {
                last = submitter.submit_blocking(command.clone())?;
            }
            submitter.wait(last)?;
            let time = device.clock() - begin;
            seen.push(Seen { logits: network.staged_output()?, time });
        }
        queue.finish()?;
        progress.finish();
        Ok(seen)
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
