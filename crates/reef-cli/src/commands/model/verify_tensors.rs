//! `reef model verify` of a network of tensors: a device against the loops that define its
//! operations.

use super::show_tensors::describe;
use crate::report::output::print;
use crate::report::progress::Progress;
use crate::workload::preempted::{self, Timed, also_preempted};
use crate::workload::tensors::{instance, outputs};
use anyhow::{Context, Result, bail};
use reef::models::{Model, Seeded};
use reef::op::Operators;
use reef::tensor::Array;
use serde_json::json;

/// Comparison to make, and its tolerance.
pub(super) struct Comparison<'a> {
    pub(super) network: &'a str,
    pub(super) device: &'a str,
    pub(super) seed: Seeded,
    pub(super) tolerance: f64,
    /// It also runs with preemptions.
    pub(super) preempt: bool,
    pub(super) json: bool,
}

pub(super) fn verify(args: &Comparison<'_>, model: &Model) -> Result<()> {
    let tensors = model.tensors().context("a network of tensors")?;
    let progress = Progress::new(2, args.json);
    progress.begin(&format!("on {}", args.device));
    let once = Inference { model, seed: args.seed, preempt: args.preempt };
    let (inputs, (have, _, preemptions)) = reef::with_device(args.device, once)??;
    progress.begin("the reference");
    let want = tensors.execute(&inputs)?;
    progress.finish();
    let off = have.iter().zip(&want).map(|(have, want)| off(have, want));
    let off = off.max_by(f64::total_cmp).unwrap_or_default();
    let (network, device) = (args.network, args.device);
    if args.json {
        let facts = json!({ "network": network, "device": device, "off": off });
        print(with_preemptions(facts, preemptions))?;
    } else {
        describe(network, tensors)?;
        print(format_args!("{device}: off by {off:.1e} of the largest value of an output"))?;
        preempted::say(preemptions)?;
    }
    if off.is_nan() || off > args.tolerance {
        bail!("{network}: {device} differs from the reference by {off:.1e}");
    }
    Ok(())
}

/// Adds how many there were, if any were asked for.
pub(super) fn with_preemptions(
    mut facts: serde_json::Value,
    preemptions: Option<u64>,
) -> serde_json::Value {
    if let Some(preemptions) = preemptions {
        facts["preemptions"] = preemptions.into();
    }
    facts
}

/// Largest difference, relative to the largest expected value. NaN in both counts as equal.
fn off(have: &Array, want: &Array) -> f64 {
    let (have, want) = (have.values().to_f64(), want.values().to_f64());
    let is_same = |a: &f64, b: &f64| a == b || a.is_nan() && b.is_nan();
    let difference = |(a, b): (&f64, &f64)| if is_same(a, b) { 0.0 } else { (a - b).abs() };
    let worst = have.iter().zip(&want).map(difference).max_by(f64::total_cmp).unwrap_or_default();
    let finite = want.iter().map(|value| value.abs()).filter(|value| value.is_finite());
    if worst == 0.0 { 0.0 } else { worst / finite.fold(0.0, f64::max) }
}

/// One inference of what is made up, on whichever device was named, and then others that are
/// preempted if that is asked for.
struct Inference<'a> {
    model: &'a Model,
    seed: Seeded,
    preempt: bool,
}

impl reef::Visit for Inference<'_> {
    type Output = Result<(Vec<Array>, Timed)>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let Self { model, seed, preempt } = self;
        let weights = model.weights(&device)?;
        let first = weights.network()?; // inputs that have no room there are not made up
        let ports = first.inputs().iter();
        let inputs: Vec<Array> =
            ports.map(|(_, port)| seed.array(&port.name, &port.spec)).collect();
        drop(first);
        let fresh = || instance(&weights, &inputs);
        let timed = also_preempted(&device, preempt.then_some(seed.0), fresh, outputs)?;
        Ok((inputs, timed))
    }
}
