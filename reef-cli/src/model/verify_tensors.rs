//! `reef model verify` of a network of tensors: a device against the loops that define its operations.

use super::show_tensors::describe;
use crate::report::output::print;
use crate::report::progress::Progress;
use crate::workload::tensors::once;
use anyhow::{Result, bail};
use reef::models::{Seeded, TensorModel};
use reef::op::Operators;
use reef::tensor::Array;
use serde_json::json;

/// What is to be compared, and how closely.
pub(super) struct Asked<'a> {
    pub(super) network: &'a str,
    pub(super) device: &'a str,
    pub(super) seed: Seeded,
    pub(super) tolerance: f64,
    pub(super) json: bool,
}

pub(super) fn verify(args: &Asked<'_>, model: &TensorModel) -> Result<()> {
    let progress = Progress::new(2, args.json);
    progress.begin(&format!("on {}", args.device));
    let seed = args.seed;
    let made = |port: &reef::models::Port| seed.array(&port.name, &port.spec);
    let inputs: Vec<Array> = model.inputs.iter().map(made).collect();
    let have = reef::with_device(args.device, Once { model, inputs: &inputs })??;
    progress.begin("the reference");
    let want = model.execute(&inputs)?;
    progress.finish();
    let off = have.iter().zip(&want).map(|(have, want)| off(have, want));
    let off = off.max_by(f64::total_cmp).unwrap_or_default();
    let (network, device) = (args.network, args.device);
    if args.json {
        print(json!({ "network": network, "device": device, "off": off }))?;
    } else {
        describe(network, model)?;
        print(format_args!("{device}: off by {off:.1e} of the largest value of an output"))?;
    }
    if off.is_nan() || off > args.tolerance {
        bail!("{network}: {device} differs from the reference by {off:.1e}");
    }
    Ok(())
}

/// The largest difference, as a part of the largest value that is wanted. What is no number in both is equal.
fn off(have: &Array, want: &Array) -> f64 {
    let (have, want) = (have.values().to_f64(), want.values().to_f64());
    let difference = |(a, b): (&f64, &f64)| match a == b || a.is_nan() && b.is_nan() {
        true => 0.0,
        false => (a - b).abs(),
    };
    let worst = have.iter().zip(&want).map(difference).max_by(f64::total_cmp).unwrap_or_default();
    let finite = want.iter().map(|value| value.abs()).filter(|value| value.is_finite());
    if worst == 0.0 { 0.0 } else { worst / finite.fold(0.0, f64::max) }
}

/// One inference, on whichever device was named.
struct Once<'a> {
    model: &'a TensorModel,
    inputs: &'a [Array],
}

impl reef::Visit for Once<'_> {
    type Output = Result<Vec<Array>>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        once(&device, self.model, self.inputs)
    }
}
