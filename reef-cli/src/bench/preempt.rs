//! `reef bench preempt`: how soon a real-time kernel runs on a device that is full.
//!
//! The real-time kernel is one block that does nothing but write its cell. It is submitted now and
//! then while a best-effort client keeps the device full, and before and after that on the idle device
//! by the same code. Two times are taken: until the device could start it ([`reef::Timing::delay`]),
//! and until its only block has run. The second is what is compared with the idle device: a stream may
//! be free to start long before a unit is.

mod calibrate;
mod load;
mod measure;
mod report;
mod stop_and_go;

use super::policy::{Choice, Policy, check_windows};
use super::time;
use crate::networks::{Loader, Picture, check};
use crate::progress::Progress;
use crate::{Usage, results};
use anyhow::{Result, bail};
use calibrate::Calibration;
use load::Load;
use measure::{Limits, Row};
use reef::op::Operators;
use reef::{DeviceInfo, PreemptLevel};
use std::time::Duration;

/// Names of the rows that others are compared with, first and last: they tell how far the device drifts.
const IDLE: &str = "idle device";
const IDLE_AGAIN: &str = "idle device, again";
/// Longest block: a minute would be a typing error.
const LONGEST: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: results::Common,
    /// Real-time kernels for each row.
    #[arg(long, default_value_t = 1000)]
    samples: usize,
    /// Most seconds for each row, which then has fewer samples.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Mean time between the end of a real-time kernel and the next one.
    #[arg(long, value_parser = time::parse, default_value = "2ms")]
    pause: Duration,
    /// A best-effort network in a closed loop; `none` for none.
    #[arg(long, default_value = "resnet152")]
    be: String,
    /// Rows and columns of the network's pictures, instead of its own.
    #[arg(long)]
    size: Option<usize>,
    /// Best-effort kernels with blocks of these times; `none` for none.
    #[arg(long, value_delimiter = ',', default_value = "20us,100us,1ms,10ms")]
    blocks: Vec<String>,
    /// How many of them are kept queued on the hardware.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64")]
    queued: Vec<u64>,
    #[command(flatten)]
    choice: Choice,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    results::check_seconds(args.seconds)?;
    if !(1..=1_000_000).contains(&args.samples) {
        return Err(Usage(format!("--samples must be in 1..=1000000, got {}", args.samples)).into());
    }
    check_windows("--queued", &args.queued)?;
    args.choice.check()?;
    let blocks = blocks(args)?;
    reef::with_device(&args.common.device, Preempt { args, blocks })?
}

impl Args {
    /// The best-effort network, if there is one.
    fn network(&self) -> Option<&String> {
        (self.be != "none").then_some(&self.be)
    }
}

/// Times of blocks, as asked.
fn blocks(args: &Args) -> Result<Vec<Duration>, Usage> {
    let asked: Vec<_> = args.blocks.iter().filter(|text| *text != "none").collect();
    let read = |text: &&String| {
        let time = time::parse(text).map_err(|why| Usage(format!("--blocks: {why}")))?;
        if time <= LONGEST {
            return Ok(time);
        }
        Err(Usage(format!("--blocks must be at most {}, got {text}", time::show(LONGEST))))
    };
    let blocks = asked.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if blocks.is_empty() && args.network().is_none() {
        return Err(Usage("nothing to measure: --be none and --blocks none".into()));
    }
    Ok(blocks)
}

/// The bench, on whichever device was named.
struct Preempt<'a> {
    args: &'a Args,
    blocks: Vec<Duration>,
}

/// One row that is to be measured.
struct Case {
    /// Which of the loads.
    load: usize,
    /// Tasks that the client keeps submitted.
    queued: u64,
    /// For policies that leave it open.
    window: u64,
    policy: Policy,
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
