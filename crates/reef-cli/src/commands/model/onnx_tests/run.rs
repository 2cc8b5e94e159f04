//! Runs cases one after the other and reports.

use super::case::{Case, LoadedCase, cases, fault};
use super::report::{Outcome, Report};
use crate::report::output::{print, save};
use crate::report::progress::Progress;
use crate::report::usage::Usage;
use crate::workload::preempted::{Random, preempted, same_bits};
use crate::workload::tensors::{instance, outputs, run_once};
use anyhow::{Result, bail};
use reef::models::{Error, Weights};
use reef::op::Operators;
use reef::tensor::Array;
use std::path::PathBuf;

/// Arguments of `reef model verify --against onnx-tests`.
pub(crate) struct Args<'a> {
    /// Folders of test data, or folders of such folders.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) device: String,
    /// Runs each of them with preemptions at random times, too.
    pub(crate) preempt: bool,
    /// Seed of the times.
    pub(crate) seed: u64,
    pub(crate) choice: &'a Choice,
}

/// Options of test data alone.
#[derive(clap::Args)]
pub(crate) struct Choice {
    /// Run only tests whose name contains this (onnx-tests).
    #[arg(long = "filter", value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// List all tests that did not pass (onnx-tests).
    #[arg(long)]
    pub(crate) list: bool,
    /// Write the table to a Markdown file (onnx-tests).
    #[arg(long, value_name = "FILE.md")]
    pub(crate) report: Option<PathBuf>,
    /// Fail if fewer tests pass (onnx-tests).
    #[arg(long = "min-passed", value_name = "COUNT", default_value_t = 0)]
    pub(crate) least: usize,
}

impl Choice {
    /// An option of these was given.
    pub(crate) fn is_given(&self) -> bool {
        self.only.is_some() || self.list || self.report.is_some() || self.least > 0
    }
}

pub(crate) fn run(args: &Args<'_>) -> Result<()> {
    if let Some(file) = &args.choice.report {
        let wrong = |why: std::io::Error| Usage(format!("--report {}: {why}", file.display()));
        reef_files::replaceable(file).map_err(wrong)?;
    }
    let mut all = Vec::new();
    for folder in &args.folders {
        let found = cases(folder)?;
        if found.is_empty() {
            let why = "must have tests, which are folders with model.onnx, or be one";
            bail!(Usage(format!("{}: {why}", folder.display())));
        }
        all.extend(found);
    }
    if let Some(part) = &args.choice.only {
        all.retain(|case| case.name.contains(part));
        if all.is_empty() {
            bail!(Usage(format!("--filter {part}: no test has this in its name")));
        }
    }
    let report = reef::with_device(&args.device, Nodes { args, cases: &all })??;
    if args.choice.list {
        print(report.list().trim_end())?;
    }
    if let Some(file) = &args.choice.report {
        save(file, report.markdown(&args.device))?;
    }
    print(report.summary())?;
    if report.passed() < args.choice.least {
        bail!("{} passed, at least {} must", report.passed(), args.choice.least);
    }
    Ok(())
}

/// All cases, on whichever device was named.
struct Nodes<'a> {
    args: &'a Args<'a>,
    cases: &'a [Case],
}

impl reef::Visit for Nodes<'_> {
    type Output = Result<Report>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let progress = Progress::new(self.cases.len(), false);
        let (mut report, mut random) = (Report::default(), Random(self.args.seed));
        for case in self.cases {
            progress.begin(&case.name);
            let outcome = match case.load() {
                Err(why) => Outcome::Refused(why.to_string()),
                Ok(loaded) => {
                    let random = self.args.preempt.then_some(&mut random);
                    outcome(&device, &loaded, random, &mut report.preemptions)
                }
            };
            report.cases.push((case.name.clone(), outcome));
        }
        progress.finish();
        Ok(report)
    }
}

fn outcome<D: Operators>(
    device: &D,
    case: &LoadedCase,
    random: Option<&mut Random>,
    preemptions: &mut u64,
) -> Outcome {
    let (weights, have) = match run_plain(device, case) {
        Ok(made) => made,
        Err(error) => {
            return match error.downcast_ref::<Error>() {
                Some(Error::Refused { .. }) => Outcome::Refused(error.to_string()),
                _ => Outcome::Failed(error.to_string()),
            };
        }
    };
    let ports = case.model.outputs();
    let specs: Vec<_> =
        ports.iter().zip(&have).map(|((_, port), array)| port.spec_of(array.len())).collect();
    if case.wanted.len() != have.len() {
        return Outcome::Failed(format!("{} outputs, {} wanted", have.len(), case.wanted.len()));
    }
    let mut pairs = specs.iter().zip(&have).zip(&case.wanted).enumerate();
    if let Some(why) = pairs.find_map(|(index, (have, want))| fault(index, have, want)) {
        return Outcome::Failed(why);
    }
    let Some(random) = random else { return Outcome::Passed };
    match run_preempted(device, case, &weights, random) {
        Err(error) => Outcome::Failed(format!("preempted: {error}")),
        Ok((count, again)) => {
            *preemptions += count;
            if same_bits(&again, &have) {
                Outcome::Passed
            } else {
                Outcome::Failed("preempted, it gives something else".into())
            }
        }
    }
}

/// The network's constants on a device, and what it gave.
fn run_plain<D: Operators>(device: &D, case: &LoadedCase) -> Result<(Weights<D>, Vec<Array>)> {
    let weights = case.model.weights(device)?;
    let network = instance(&weights, &case.inputs)?;
    run_once(device, &network.inference())?;
    let made = outputs(&network)?;
    Ok((weights, made))
}

/// Number of preemptions, and the outputs of the preempted network.
fn run_preempted<D: Operators>(
    device: &D,
    case: &LoadedCase,
    weights: &Weights<D>,
    random: &mut Random,
) -> Result<(u64, Vec<Array>)> {
    let network = instance(weights, &case.inputs)?;
    let count = preempted(device, &network.inference(), random)?;
    Ok((count, outputs(&network)?))
}
