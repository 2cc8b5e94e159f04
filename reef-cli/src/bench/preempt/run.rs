//! Measures each row of `reef bench preempt`, the idle device first and last.

use super::args::Args;
use super::calibrate::Calibration;
use super::load::Load;
use super::measure::{self, Case, Row};
use super::pace::Limits;
use super::report;
use crate::bench::policy::Policy;
use crate::bench::time;
use crate::report::progress::Progress;
use crate::workload::networks::{Loader, Picture, check};
use anyhow::{Result, bail};
use reef::op::Operators;
use reef::{DeviceInfo, PreemptLevel};
use std::time::Duration;

/// Names of the rows that others are compared with, first and last: they tell how far the device drifts.
const IDLE: &str = "idle device";
const IDLE_AGAIN: &str = "idle device, again";

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check()?;
    let blocks = args.blocks()?;
    reef::with_device(&args.common.device, Preempt { args, blocks })?
}

/// The bench, on whichever device was named.
struct Preempt<'a> {
    args: &'a Args,
    blocks: Vec<Duration>,
}

impl reef::Visit for Preempt<'_> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let args = self.args;
        if let Some(name) = args.network() {
            check(name, &[], Picture { file: None, size: args.size })?;
        }
        let cases = self.cases(&device.info())?;
        args.common.make_folder()?;
        let steps = usize::from(args.network().is_some()) + self.blocks.len() + cases.len() + 2;
        let progress = Progress::new(steps, args.common.json);
        let loads = self.loads(&device, &progress)?;
        let rows = self.rows(&device, &loads, cases, &progress)?;
        progress.finish();
        report::show(args, &device, &loads, &rows)?;
        let wrong = rows.iter().filter(|row| row.right == Some(false)).count();
        if wrong > 0 {
            bail!("{wrong} of {} rows lost or repeated work", rows.len());
        }
        Ok(())
    }
}

impl Preempt<'_> {
    /// The network comes first, then blocks as they were asked for.
    fn loads<D: Operators>(&self, device: &D, progress: &Progress) -> Result<Vec<Load<D>>> {
        let mut loads = Vec::new();
        if let Some(name) = self.args.network() {
            progress.begin(&format!("loading {name}"));
            let named = Loader::new(device, self.args.size).network(name, None)?;
            loads.push(Load::network(device, named, self.args.choice.lengths.graph)?);
        }
        if self.blocks.is_empty() {
            return Ok(loads);
        }
        let calibration = Calibration::new(device)?;
        for &block in &self.blocks {
            progress.begin(&format!("calibrating blocks of {}", time::show(block)));
            loads.push(Load::blocks(device, &calibration, block)?);
        }
        Ok(loads)
    }

    /// All rows but those of the idle device.
    fn cases(&self, info: &DeviceInfo) -> Result<Vec<Case>> {
        let args = self.args;
        let networks = usize::from(args.network().is_some());
        let mut cases = Vec::new();
        for load in 0..networks + self.blocks.len() {
            let is_network = load < networks;
            let queued = if is_network { &[1][..] } else { &args.queued };
            for &queued in queued {
                let window = if is_network { args.choice.lengths.window } else { queued };
                let chosen = args.choice.of(policies(), info.level)?;
                cases.extend(
                    chosen
                        .into_iter()
                        .map(|policy| Case { load, queued, window, policy })
                        .filter(|case| is_network || self.is_told_apart(case)),
                );
            }
        }
        Ok(cases)
    }

    /// Rows with a window of their own are measured with the most that a client keeps queued: less
    /// would be the same as a shorter window.
    fn is_told_apart(&self, case: &Case) -> bool {
        case.policy.window.is_none() || Some(&case.queued) == self.args.queued.iter().max()
    }

    fn rows<D: Operators>(
        &self,
        device: &D,
        loads: &[Load<D>],
        cases: Vec<Case>,
        progress: &Progress,
    ) -> Result<Vec<Row>> {
        let args = self.args;
        let limits = Limits {
            samples: args.samples,
            time: Duration::from_secs_f64(args.seconds),
            pause: args.pause,
            seed: args.common.seed,
        };
        progress.begin(IDLE);
        let first = measure::idle(device, IDLE, &limits)?;
        let idle = first.quantiles();
        let mut rows = vec![first.beside(idle)];
        for case in cases {
            let load = &loads[case.load];
            progress.begin(&format!("{}, {} queued, {}", load.name, case.queued, case.policy.name));
            rows.push(measure::row(device, load, case, &limits)?.beside(idle));
            report::results(loads, &rows).save(&args.common, device)?;
        }
        progress.begin(IDLE_AGAIN);
        rows.push(measure::idle(device, IDLE_AGAIN, &limits)?.beside(idle));
        Ok(rows)
    }
}

/// What is compared, HostQueue aside.
fn policies() -> impl Iterator<Item = Policy> {
    let levels = [PreemptLevel::All, PreemptLevel::DeviceQueue].map(Policy::at);
    levels.into_iter().chain(["streams", "stream-priority", "wait-based"].map(Policy::named))
}
