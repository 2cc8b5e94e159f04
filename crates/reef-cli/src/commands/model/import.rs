//! `reef model import` and `reef model export`: folders of networks.

use super::facts::{Facts, describe};
use super::show_tensors::{describe as describe_tensors, facts};
use crate::report::checks::check_folder;
use crate::report::output::{count, print};
use crate::report::progress::Progress;
use crate::report::size;
use crate::report::usage::Usage;
use crate::workload::networks::Sizes;
use anyhow::Result;
use reef::models::onnx;
use reef::models::profile::Latencies;
use reef::models::{Budget, Model, ModelBuilder, measure_with, unread};
use reef::op::Operators;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Files of a network that are written.
const FILES: [&str; 4] = ["model.json", "model.param", "model.profile.json", "model.onnx"];

#[derive(clap::Args)]
pub(crate) struct Import {
    /// FILE.onnx, or FILE.safetensors with torchvision's names.
    file: PathBuf,
    #[command(flatten)]
    folder: Out,
    /// Model whose weights a .safetensors file has: a name of `reef model list`.
    #[arg(long = "model", value_name = "MODEL")]
    network: Option<String>,
    /// Images at a time.
    #[arg(long)]
    batch: Option<usize>,
    #[command(flatten)]
    sizes: Sizes,
    /// Limit of the memory for reading, such as 512MiB; 0 for none.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "2GiB")]
    memory: u64,
}

#[derive(clap::Args)]
pub(crate) struct Export {
    /// Model: a name of `reef model list`.
    #[arg(value_name = "MODEL")]
    network: String,
    #[command(flatten)]
    folder: Out,
    /// Images at a time.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Rows and columns of images, where the model does not fix them.
    #[arg(long)]
    size: Option<usize>,
    /// Seed of the made-up weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
struct Out {
    /// Folder to write: model.json, model.param, model.profile.json. It must not have a network.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Measure the launches on this device; without it there is no profile.
    #[arg(long)]
    device: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn import(args: &Import) -> Result<()> {
    args.folder.check()?;
    let extension = args.file.extension().unwrap_or_default();
    if let (Some("onnx"), None) = (extension.to_str(), &args.network) {
        return import_onnx(args);
    }
    let model = match (extension.to_str(), &args.network) {
        (Some("safetensors"), Some(name)) => args.opened(Path::new(name)).weights(&args.file),
        (Some("onnx"), Some(_)) => return usage("--model is for .safetensors files"),
        (Some("safetensors"), None) => {
            return usage("--model must name the model whose weights these are");
        }
        _ => {
            let known = unread(&args.file).map(Into::into);
            let why = format!("{}: must be .onnx or .safetensors", args.file.display());
            return known.map_or_else(|| usage(&why), Err);
        }
    };
    args.folder.save(model.read()?)
}

/// A network for images becomes a schedule and its weights; one of tensors stays the file that it
/// is.
fn import_onnx(args: &Import) -> Result<()> {
    let model = args.opened(&args.file).read_usual()?;
    let Some(tensors) = model.tensors() else { return args.folder.save(model) };
    if args.sizes.is_given() || args.batch.is_some() || args.folder.device.is_some() {
        return usage(
            "--size, --shape, --batch and --device are for networks for images: this file is kept as it \
             is, with its sizes open",
        );
    }
    let out = &args.folder.out;
    let is_whole = || Model::open(out).budget(&args.budget()).read_usual().map(drop);
    onnx::copy(&args.file, out, &args.budget(), is_whole)?;
    if args.folder.json {
        let file = args.file.display().to_string();
        return print(
            json!({ "folder": out.display().to_string(), "network": facts(&file, tensors) }),
        );
    }
    describe_tensors(&out.display().to_string(), tensors)
}

impl Import {
    /// A network with what the command line says.
    fn opened(&self, what: &Path) -> ModelBuilder<'_> {
        self.sizes.opened(what).batch(self.batch).budget(&self.budget())
    }

    /// The memory that reading may take.
    fn budget(&self) -> Budget {
        size::budget(self.memory)
    }
}

pub(crate) fn export(args: &Export) -> Result<()> {
    args.folder.check()?;
    let model = Model::open(&args.network).input_size(args.size).batch(args.batch).seed(args.seed);
    args.folder.save(model.read()?)
}

fn usage(what: &str) -> Result<()> {
    Err(Usage(what.into()).into())
}

impl Out {
    /// Refuses a file as the folder, and a folder that has a network: two of them would be mixed.
    fn check(&self) -> Result<(), Usage> {
        check_folder(&self.out)?;
        match FILES.iter().find(|name| reef_files::is_taken(self.out.join(name))) {
            None => Ok(()),
            Some(name) => Err(Usage(format!(
                "--out {}: must be a folder without a network, got one with {name}; remove it or name another",
                self.out.display()
            ))),
        }
    }

    fn save(&self, mut model: Model) -> Result<()> {
        if let Some(device) = &self.device {
            let measure = Measure { model: &model, quiet: self.json };
            let latencies = reef::with_device(device, measure)??;
            model = model.with_latencies(Some(latencies));
        }
        model.save(&self.out)?;
        let (image, _) = model.image()?;
        if self.json {
            let micros = model.latencies().map(|latencies| latencies.micros);
            let network = Facts::of(self.out.display(), image);
            let folder = self.out.display().to_string();
            let json = json!({ "folder": folder, "network": network, "inference_us": micros });
            return print(serde_json::to_string_pretty(&json)?);
        }
        describe(self.out.display(), image)?;
        model.latencies().map_or(Ok(()), |latencies| measured(&self.out, latencies))
    }
}

fn measured(out: &Path, latencies: &Latencies) -> Result<()> {
    let launches = count(latencies.kernels.len(), "launch");
    let millis = f64::from(latencies.micros) / 1e3;
    print(format_args!("{}: {launches}, {millis:.2} ms", out.display()))
}

/// Measures a network's launches, on whichever device was named.
struct Measure<'a> {
    model: &'a Model,
    quiet: bool,
}

impl reef::Visit for Measure<'_> {
    type Output = Result<Latencies>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let network = self.model.load(&device)?;
        let progress = Progress::new(network.step_names().len(), self.quiet);
        let latencies = measure_with(&device, &network, |launch| progress.begin(launch))?;
        progress.finish();
        Ok(latencies)
    }
}
