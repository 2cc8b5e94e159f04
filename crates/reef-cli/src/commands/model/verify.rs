//! `reef model verify`: compares a device with the reference, or with ONNX's own test data.
//!
//! The reference of an ONNX file is the file itself, node by node. Devices run the schedule that
//! was made of it, so that is compared too, on the host and more strictly: rounding on a device
//! must not hide a fault of the reader.
//!
//! With scales the reference has numbers of 8 bits where the device has them. Its own distance from
//! floats is said, and bounded by nothing.

use super::calibrate::deviation::largest;
use super::facts::describe;
use super::onnx_tests;
use super::verify_tensors::{self, Comparison, with_preemptions};
use crate::report::device::{self, resolve};
use crate::report::output::print;
use crate::report::progress::Progress;
use crate::report::usage::Usage;
use crate::workload::networks::Sizes;
use crate::workload::preempted::{self, also_preempted};
use anyhow::{Result, bail};
use reef::models::kinds::{ImageModel, quantized_steps, reference};
use reef::models::{Model, Network, Scales, Seeded};
use reef::op::{Format, Operators};
use reef::tensor::Array;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Largest difference between a file's nodes and the schedule that was made of them, both in plain
/// loops.
const MAX_REWRITTEN: f64 = 2e-5;

/// Reference that a device is compared with.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Reference {
    /// Plain loops on the host.
    #[value(name = "reference")]
    PlainLoops,
    /// Test data in the form of ONNX's own.
    OnnxTests,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model: a name of `reef model list`, a folder or an ONNX file. With --against onnx-tests:
    /// folders of test data.
    #[arg(required = true)]
    model: Vec<String>,
    /// Compare with this.
    #[arg(long, value_enum, default_value = "reference")]
    against: Reference,
    #[arg(long, default_value = device::AUTO, help = device::HELP)]
    device: String,
    #[command(flatten)]
    sizes: Sizes,
    /// Largest difference, as a part of the largest output: 1e-3, with --scales 0.1 (int8) or 0.2
    /// (fp8).
    #[arg(long, value_parser = tolerance)]
    tolerance: Option<f64>,
    /// File of `reef model calibrate`: numbers of 8 bits.
    #[arg(long, value_name = "FILE")]
    scales: Option<PathBuf>,
    /// Seed of the made-up image, of the weights of a model that is built, and of the times of
    /// preemptions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run it again with preemptions at random times, which must not change a bit.
    #[arg(long)]
    preempt: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tests: onnx_tests::run::Choice,
}

/// Reads a largest difference. No difference is above one that is not a number.
fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| !number.is_nan());
    number.ok_or_else(|| format!("must be a number, such as 1e-3, got {text:?}"))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match args.against {
        Reference::OnnxTests if args.is_about_reference() => {
            let options = "--json, --size, --shape, --loop-bound, --scales and --tolerance";
            Err(Usage(format!("{options} go without --against onnx-tests")).into())
        }
        Reference::OnnxTests => onnx_tests::run::run(&onnx_tests::run::Args {
            folders: args.model.iter().map(PathBuf::from).collect(),
            device: resolve(&args.device)?,
            preempt: args.preempt,
            seed: args.seed,
            choice: &args.tests,
        }),
        Reference::PlainLoops => compare(args),
    }
}

/// Compares with the reference.
fn compare(args: &Args) -> Result<()> {
    let [network] = &args.model[..] else {
        return Err(Usage("several models: give one, or --against onnx-tests".into()).into());
    };
    if args.tests.is_given() {
        let why = "--filter, --list, --report and --min-passed belong to --against onnx-tests";
        return Err(Usage(why.into()).into());
    }
    let device = &resolve(&args.device)?;
    let scales = args.scales.as_ref().map(Scales::load).transpose()?;
    let model = args.sizes.opened(network).seed(args.seed).scales(&scales).read_usual()?;
    let tolerance = args.tolerance(scales.as_ref().map(Scales::format));
    if model.tensors().is_some() {
        let (json, preempt) = (args.json, args.preempt);
        let comparison =
            Comparison { network, device, seed: Seeded(args.seed), tolerance, preempt, json };
        return verify_tensors::verify(&comparison, &model);
    }
    let compared = Compared::of(args, device, &model)?;
    compared.say(args, network, device, &model)?;
    let Compared { off, rewritten, .. } = compared;
    if rewritten.is_nan() || rewritten > MAX_REWRITTEN {
        bail!("{network}: the schedule differs from the network's file by {rewritten:.1e}");
    }
    if off.is_nan() || off > tolerance {
        bail!("{network}: {device} differs from the reference by {off:.1e}");
    }
    Ok(())
}

/// Differences of a network for images, relative to the largest expected value.
struct Compared {
    /// Of the device from the reference.
    off: f64,
    /// Of the schedule from the network's file.
    rewritten: f64,
    /// Of the device from floats.
    from_floats: f64,
    largest_output: f64,
    /// Layouts on the device.
    planned: Arc<ImageModel>,
    preemptions: Option<u64>,
}

impl Compared {
    fn of(args: &Args, device: &str, model: &Model) -> Result<Self> {
        let (image, tensors) = model.image()?;
        let input = &Seeded(args.seed).input(model.input_len());
        let progress = Progress::new(2, args.json);
        progress.begin(&format!("on {device}"));
        let (planned, (have, preemptions)) =
            reef::with_device(device, Verify { args, model, input })??;
        progress.begin("the reference");
        let floats = model.expected(input)?;
        let schedule = reference::execute(image, tensors, input)?;
        let want = match model.scales() {
            Some(_) => &reference::execute(&planned, tensors, input)?,
            None => &floats,
        };
        progress.finish();
        Ok(Self {
            off: off(&have, want),
            rewritten: off(&schedule, &floats),
            from_floats: off(&have, &floats),
            largest_output: largest(want.iter().map(|&value| f64::from(value))),
            planned,
            preemptions,
        })
    }

    fn say(&self, args: &Args, network: &str, device: &str, model: &Model) -> Result<()> {
        let Self { off, rewritten, from_floats, largest_output, planned, preemptions } = self;
        let format = model.scales().map(|scales| scales.format().name());
        if args.json {
            let mut facts = json!({
                "network": network, "device": device, "off": off, "largest": largest_output,
                "rewritten": rewritten,
            });
            if let Some(format) = format {
                facts["format"] = format.into();
                facts["off_from_floats"] = (*from_floats).into();
            }
            return print(with_preemptions(facts, *preemptions));
        }
        describe(network, model.image()?.0)?;
        print(format_args!(
            "the schedule: off by {rewritten:.1e} of what the network's file says"
        ))?;
        print(format_args!(
            "{device}: off by {off:.1e} of the largest output, {largest_output:.4}"
        ))?;
        if let Some(format) = format {
            let steps = quantized_steps(planned);
            print(format_args!("{format} in {steps} steps: off by {from_floats:.1e} of floats"))?;
        }
        preempted::say(*preemptions)
    }
}

impl Args {
    /// Returns whether options are given that test data in ONNX's form have no use for.
    fn is_about_reference(&self) -> bool {
        let is_compared = self.scales.is_some() || self.tolerance.is_some();
        self.json || self.sizes.is_given() || is_compared
    }

    /// A number of 8 bits that is rounded the other way changes others, and those still others.
    fn tolerance(&self, format: Option<Format>) -> f64 {
        self.tolerance.unwrap_or(match format {
            None => 1e-3,
            Some(Format::Int8) => 0.1,
            Some(Format::Fp8) => 0.2,
        })
    }
}

/// Largest difference, relative to the largest expected value.
fn off(have: &[f32], want: &[f32]) -> f64 {
    let worst = largest(have.iter().zip(want).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    let all = largest(want.iter().map(|&value| f64::from(value)));
    if worst == 0.0 { 0.0 } else { worst / all }
}

/// One inference, on whichever device was named.
struct Verify<'a> {
    args: &'a Args,
    model: &'a Model,
    input: &'a [f32],
}

impl reef::Visit for Verify<'_> {
    type Output = Result<(Arc<ImageModel>, (Vec<f32>, Option<u64>))>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let Self { args, model, input } = self;
        let weights = model.weights(&device)?;
        let fresh = || -> Result<_> {
            let network = weights.network()?;
            network.stage_input(input)?;
            Ok(network)
        };
        let made = |network: &Network<D>| Ok(vec![Array::F32(network.staged_output()?)]);
        let seed = args.preempt.then_some(args.seed);
        let (have, _, preemptions) = also_preempted(&device, seed, fresh, made)?;
        let [Array::F32(have)] = &have[..] else { unreachable!("`made` gives singles") };
        Ok((model.image_on(&device)?, (have.clone(), preemptions)))
    }
}
