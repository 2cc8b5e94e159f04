//! Measures each row of `reef bench start`, the idle device first and last.

use super::args::Args;
use super::load::Load;
use super::measure::{self, Case, Row};
use super::pace::Limits;
use super::report;
use crate::commands::bench::device_bench::DeviceBench;
use crate::commands::bench::policy::Policy;
use crate::report::progress::Progress;
use crate::report::time;
use crate::workload::calibrate::Calibration;
use crate::workload::networks::{Image, Loader, check};
use anyhow::{Result, bail};
use reef::op::Operators;
use reef::{DeviceInfo, PreemptLevel};
use std::time::Duration;

/// Name of the row of what the device and its driver take by themselves.
const BARE: &str = "one bare launch";
/// Names of the rows that others are compared with, first and last: they tell how far the device
/// drifts.
const IDLE: &str = "idle device";
const IDLE_AGAIN: &str = "idle device, again";

impl DeviceBench for Args {
    fn check(&self) -> Result<()> {
        Args::check(self)?;
        self.blocks()?;
        let image = Image { file: None, sizes: &self.sizes };
        self.network().map_or(Ok(()), |name| check(name, &[], image))
    }

    fn measure<D: Operators>(&self, device: &D) -> Result<()> {
        let bench = Preempt { args: self, blocks: self.blocks()? };
        let cases = bench.cases(&device.info())?.len();
        let loads = usize::from(self.network().is_some()) + bench.blocks.len();
        let steps = loads + (cases + 2) * self.repeat;
        let progress = Progress::new(steps, self.common.json);
        progress.expect((cases + 2) * self.repeat, self.time);
        let loads = bench.loads(device, &progress)?;
        let rows = bench.rows(device, &loads, &progress)?;
        progress.finish();
        report::show(self, device, &loads, &rows)?;
        let wrong = rows.iter().filter(|row| row.right == Some(false)).count();
        if wrong > 0 {
            bail!("{wrong} of {} rows lost or repeated work", rows.len());
        }
        Ok(())
    }
}

/// The bench, with times of blocks read.
struct Preempt<'a> {
    args: &'a Args,
    blocks: Vec<Duration>,
}

impl Preempt<'_> {
    /// The network comes first, then blocks as they were asked for.
    fn loads<D: Operators>(&self, device: &D, progress: &Progress) -> Result<Vec<Load<D>>> {
        let mut loads = Vec::new();
        if let Some(name) = self.args.network() {
            progress.begin(&format!("loading {name}"));
            let named = Loader::new(device, &self.args.sizes).network(name, None)?;
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

    /// All rows, in turns.
    fn rows<D: Operators>(
        &self,
        device: &D,
        loads: &[Load<D>],
        progress: &Progress,
    ) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        for _ in 0..self.args.repeat {
            let mut at = 0;
            self.round(device, loads, progress, |row| {
                match rows.get_mut(at) {
                    Some(had) => had.add(row)?,
                    None => rows.push(row),
                }
                at += 1;
                compare(&mut rows);
                report::results(loads, &rows).save(&self.args.common, device).map(|_| ())
            })?;
        }
        Ok(rows)
    }

    /// Measures each row once; `take` gets them in order.
    fn round<D: Operators>(
        &self,
        device: &D,
        loads: &[Load<D>],
        progress: &Progress,
        mut take: impl FnMut(Row) -> Result<()>,
    ) -> Result<()> {
        let args = self.args;
        let limits = Limits {
            samples: args.samples,
            time: args.time,
            pause: args.pause,
            awake: args.awake,
            seed: args.common.seed,
        };
        progress.begin(IDLE);
        for row in measure::idle(device, [BARE, IDLE], &limits)? {
            take(row)?;
        }
        for case in self.cases(&device.info())? {
            let load = &loads[case.load];
            progress.begin(&format!("{}, {} queued, {}", load.name, case.queued, case.policy.name));
            take(measure::row(device, load, case, &limits)?)?;
        }
        progress.begin(IDLE_AGAIN);
        let [_, idle] = measure::idle(device, [BARE, IDLE_AGAIN], &limits)?;
        take(idle)
    }
}

/// Sets what rows are compared with: the first is of bare launches, the second of the idle device.
fn compare(rows: &mut [Row]) {
    let bare = rows[0].seen.value_at_quantile(0.5);
    let idle = rows.get(1).map_or([0; 2], Row::quantiles);
    for row in rows {
        (row.bare, row.idle) = (bare, idle);
    }
}

/// Policies to compare, without HostQueue.
fn policies() -> impl Iterator<Item = Policy> {
    let levels = [PreemptLevel::All, PreemptLevel::DeviceQueue].map(Policy::at);
    levels.into_iter().chain(["streams", "stream-priority", "wait-based"].map(Policy::named))
}
