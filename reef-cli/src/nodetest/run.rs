//! Runs cases one after the other and reports.

use super::args::Args;
use super::case::{Case, Loaded, cases};
use super::compare::fault;
use super::execute::{Random, preempted};
use super::report::{Outcome, Report};
use crate::report::output::print;
use crate::report::progress::Progress;
use crate::workload::tensors::once;
use anyhow::{Context, Result, bail};
use reef::models::Error;
use reef::op::Operators;

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut all = Vec::new();
    for folder in &args.folders {
        all.extend(cases(folder)?);
    }
    all.retain(|case| args.only.as_ref().is_none_or(|part| case.name.contains(part)));
    let report = reef::with_device(&args.device, Nodes { args, cases: &all })??;
    if args.list {
        print(report.list().trim_end())?;
    }
    if let Some(file) = &args.report {
        std::fs::write(file, report.markdown(&args.device))
            .with_context(|| file.display().to_string())?;
    }
    print(report.summary())?;
    if report.passed() < args.least {
        bail!("{} passed, {} are wanted", report.passed(), args.least);
    }
    Ok(())
}

/// All cases, on whichever device was named.
struct Nodes<'a> {
    args: &'a Args,
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
    case: &Loaded,
    random: Option<&mut Random>,
    preemptions: &mut u64,
) -> Outcome {
    let have = match once(device, &case.model, &case.inputs) {
        Ok(have) => have,
        Err(error) => {
            return match error.downcast_ref::<Error>() {
                Some(Error::Refused { .. }) => Outcome::Refused(error.to_string()),
                _ => Outcome::Failed(error.to_string()),
            };
        }
    };
    let specs = case.model.outputs.iter().map(|port| &port.spec);
    if case.wanted.len() != have.len() {
        return Outcome::Failed(format!("{} outputs, {} wanted", have.len(), case.wanted.len()));
    }
    let mut pairs = specs.zip(&have).zip(&case.wanted).enumerate();
    if let Some(why) = pairs.find_map(|(index, (have, want))| fault(index, have, want)) {
        return Outcome::Failed(why);
    }
    let Some(random) = random else { return Outcome::Passed };
    match preempted(device, &case.model, &case.inputs, random) {
        Err(error) => Outcome::Failed(format!("preempted: {error}")),
        Ok((again, count)) => {
            *preemptions += count;
            let same = again.iter().zip(&have).all(|(a, b)| a.to_le_bytes() == b.to_le_bytes());
            if same {
                Outcome::Passed
            } else {
                Outcome::Failed("preempted, it gives something else".into())
            }
        }
    }
}
