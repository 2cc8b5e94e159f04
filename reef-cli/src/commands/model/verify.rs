//! `reef model verify`: whether a device computes what the reference does.
//!
//! The reference of an ONNX file is the file itself, node by node. Devices run the schedule that was made of it, so
//! that is compared too, on the host and more strictly: rounding on a device must not hide a fault of the reader.

use super::facts::describe;
use super::verify_tensors::{self, Asked, with_preemptions};
use crate::report::output::print;
use crate::report::progress::Progress;
use crate::workload::preempted::{self, also_preempted};
use anyhow::{Result, bail};
use reef::models::{self, AnyModel, Model, Network, Seeded, Tensors, Weights, reference};
use reef::op::Operators;
use reef::tensor::Array;
use serde_json::json;

/// Largest difference between a file's nodes and the schedule that was made of them, both in plain loops.
const MAX_REWRITTEN: f64 = 2e-5;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A network: a folder, an ONNX file, or a name that `reef model list` has.
    network: String,
    /// The device: cpu, cpu:0?units=4 and so on; `reef devices` lists what is there.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Rows and columns of the picture, where the network leaves them open.
    #[arg(long)]
    size: Option<usize>,
    /// Largest difference, as a part of the largest output.
    #[arg(long, default_value_t = 1e-3)]
    tolerance: f64,
    /// Seed of the made-up picture, and of the weights of a network that is built.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs it also with preemptions at random times, which must change no bit.
    #[arg(long)]
    preempt: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let opened = models::open(&args.network, args.size, None, Seeded(args.seed))?;
    let (model, tensors) = match &opened.model {
        AnyModel::Picture { model, tensors } => (model, tensors),
        AnyModel::Tensors(model) => {
            let Args { network, device, tolerance, json, preempt, .. } = args;
            let (tolerance, json, preempt) = (*tolerance, *json, *preempt);
            let asked =
                Asked { network, device, seed: Seeded(args.seed), tolerance, preempt, json };
            return verify_tensors::verify(&asked, model);
        }
    };
    let progress = Progress::new(2, args.json);
    progress.begin(&format!("on {}", args.device));
    let (have, preemptions) = reef::with_device(&args.device, Verify { args, model, tensors })??;
    progress.begin("the reference");
    let input = picture(args, model);
    let want = models::expected(&args.network, &opened, args.size, None, &input)?;
    let schedule = reference::execute(model, tensors, &input)?;
    progress.finish();
    let (off, rewritten) = (off(&have, &want), off(&schedule, &want));
    let largest_output = largest(want.iter().map(|&value| f64::from(value)));
    let (network, device) = (&args.network, &args.device);
    if args.json {
        let facts = json!({
            "network": network, "device": device, "off": off, "largest": largest_output,
            "rewritten": rewritten,
        });
        print(with_preemptions(facts, preemptions))?;
    } else {
        describe(network, model)?;
        print(format_args!(
            "the schedule: off by {rewritten:.1e} of what the network's file says"
        ))?;
        print(format_args!(
            "{device}: off by {off:.1e} of the largest output, {largest_output:.4}"
        ))?;
        preempted::say(preemptions)?;
    }
    if rewritten.is_nan() || rewritten > MAX_REWRITTEN {
        bail!("{network}: the schedule differs from the network's file by {rewritten:.1e}");
    }
    if off.is_nan() || off > args.tolerance {
        bail!("{network}: {device} differs from the reference by {off:.1e}");
    }
    Ok(())
}

/// The largest difference, as a part of the largest value that is wanted.
fn off(have: &[f32], want: &[f32]) -> f64 {
    let worst = largest(have.iter().zip(want).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    let all = largest(want.iter().map(|&value| f64::from(value)));
    if worst == 0.0 { 0.0 } else { worst / all }
}

/// Of the absolute values; not a number is larger than all.
fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.map(f64::abs).max_by(f64::total_cmp).unwrap_or_default()
}

fn picture(args: &Args, model: &Model) -> Vec<f32> {
    Seeded(args.seed).input(model.input().elements())
}

/// One inference, on whichever device was named.
struct Verify<'a> {
    args: &'a Args,
    model: &'a Model,
    tensors: &'a Tensors,
}

impl reef::Visit for Verify<'_> {
    type Output = Result<(Vec<f32>, Option<u64>)>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let Self { args, model, tensors } = self;
        let weights = Weights::pack(&device, model, tensors)?;
        let input = picture(args, model);
        let fresh = || -> Result<_> {
            let network = Network::new(&device, model, &weights)?;
            network.stage_input(&input)?;
            Ok(network)
        };
        let made = |network: &Network<D>| Ok(vec![Array::F32(network.staged_output()?)]);
        let seed = args.preempt.then_some(args.seed);
        let (have, _, preemptions) = also_preempted(&device, seed, fresh, made)?;
        let [Array::F32(have)] = &have[..] else { unreachable!("`made` gives singles") };
        Ok((have.clone(), preemptions))
    }
}
