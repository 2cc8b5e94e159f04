//! `reef model profile`: times of the kernels of a network on a device, for padding.

use crate::report::checks::check_file;
use crate::report::device;
use crate::report::output::{count, print, save};
use crate::report::progress::Progress;
use crate::workload::networks::{Loader, Sizes, read_scales};
use anyhow::Result;
use reef::models::measure_with;
use reef::op::Operators;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::slice;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model: a name of `reef model list`, a folder or an ONNX file.
    model: String,
    #[arg(long, default_value = device::AUTO, help = device::HELP)]
    device: String,
    #[command(flatten)]
    sizes: Sizes,
    /// File of `reef model calibrate`: numbers of 8 bits.
    #[arg(long, value_name = "FILE")]
    scales: Option<PathBuf>,
    /// File to write, instead of MODEL.profile.json.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    reef::with_device(&device::resolve(&args.device)?, Profile(args))?
}

/// The measurement, on whichever device was named.
struct Profile<'a>(&'a Args);

impl reef::Visit for Profile<'_> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let args = self.0;
        let path = args.out.clone().unwrap_or_else(|| default_path(&args.model));
        let files = args.scales.as_slice();
        let models = slice::from_ref(&args.model);
        args.sizes.check(models)?;
        let scales = read_scales(files, models, &args.sizes)?;
        let mut loader = Loader::new(&device, &args.sizes).scales(scales);
        let network = loader.network(&args.model, None)?.network;
        check_file(&path)?;
        let progress = Progress::new(network.step_names().len(), args.json);
        let latencies = measure_with(&device, &network, |launch| progress.begin(launch))?;
        progress.finish();
        let text = latencies.to_json()?;
        save(&path, text + "\n")?;
        if args.json {
            return print(json!({
                "file": path.display().to_string(),
                "device": device.info().name,
                "kernels": latencies.kernels.len(),
                "inference_us": latencies.micros,
            }));
        }
        let (kernels, millis) = (latencies.kernels.len(), f64::from(latencies.micros) / 1e3);
        let (kernels, device) = (count(kernels, "kernel"), device.info().name);
        print(format_args!("{}: {kernels}, {millis:.2} ms ({device})", path.display()))
    }
}

/// Default path of a network's profile: in its folder, if it has one.
fn default_path(model: &str) -> PathBuf {
    match Path::new(model) {
        folder if folder.is_dir() => folder.join("model.profile.json"),
        file => file.with_extension("profile.json"),
    }
}
