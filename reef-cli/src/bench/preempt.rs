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

use super::policy::{Policy, check_windows, choose};
use super::time;
use crate::networks::Loader;
use crate::progress::Progress;
use crate::{Usage, results};
use anyhow::{Result, bail};
use calibrate::Calibration;
use load::Load;
use measure::{Limits, Row};
use reef::op::Operators;
use reef::{DeviceInfo, PreemptLevel};
use std::time::Duration;

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
    /// Hardware queue lengths at level HostQueue.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    windows: Vec<u64>,
    /// Hardware queue length for the network at other levels.
    #[arg(long, default_value_t = 4)]
    window: u64,
    /// Only these rows, such as All,stream-priority.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seed of the pauses between real-time kernels.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    results::check_seconds(args.seconds)?;
    if !(1..=1_000_000).contains(&args.samples) {
        return Err(Usage(format!("--samples must be in 1..=1000000, got {}", args.samples)).into());
    }
    check_windows("--queued", &args.queued)?;
    check_windows("--windows", &args.windows)?;
    check_windows("--window", &[args.window])?;
    let blocks = blocks(args)?;
    reef::with_device(&args.common.device, Preempt { args, blocks })?
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
    if blocks.is_empty() && args.be == "none" {
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
        let networks = usize::from(args.be != "none");
        let cases = self.cases(&device.info())?;
        let steps = networks + self.blocks.len() + cases.len() + 2;
        let progress = Progress::new(steps, args.common.json);
        let loads = self.loads(&device, &progress)?;
        if let Some(out) = &args.common.out {
            results::make_folder(out)?;
        }
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
        if self.args.be != "none" {
            progress.begin(&format!("loading {}", self.args.be));
            let named = Loader::new(device, self.args.size).network(&self.args.be, None)?;
            loads.push(Load::network(device, named)?);
        }
        let mut calibration = None;
        for &block in &self.blocks {
            progress.begin(&format!("calibrating blocks of {}", time::show(block)));
            let known = calibration.take().map_or_else(|| Calibration::new(device), Ok)?;
            loads.push(Load::blocks(device, &known, block)?);
            calibration = Some(known);
        }
        Ok(loads)
    }

    /// All rows but those of the idle device.
    fn cases(&self, info: &DeviceInfo) -> Result<Vec<Case>> {
        let args = self.args;
        let networks = usize::from(args.be != "none");
        let mut cases = Vec::new();
        for load in 0..networks + self.blocks.len() {
            let is_network = load < networks;
            let queued = if is_network { &[1][..] } else { &args.queued };
            for &queued in queued {
                let window = if is_network { args.window } else { queued };
                let chosen = choose(self.policies(), &args.only, info.level)?;
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

    fn policies(&self) -> Vec<Policy> {
        let levels = [PreemptLevel::All, PreemptLevel::DeviceQueue].map(Policy::at);
        let windows = self.args.windows.iter().map(|&window| Policy::host_queue(window));
        let baselines = ["streams", "stream-priority", "wait-based"].map(Policy::named);
        levels.into_iter().chain(windows).chain(baselines).collect()
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
            seed: args.seed,
        };
        progress.begin("idle device");
        let first = measure::idle(device, &limits)?;
        let idle = first.quantiles();
        let mut rows = vec![first.beside(idle)];
        for case in cases {
            let load = &loads[case.load];
            progress.begin(&format!("{}, {} queued, {}", load.name, case.queued, case.policy.name));
            rows.push(measure::row(device, load, case, &limits)?.beside(idle));
        }
        progress.begin("idle device, again");
        rows.push(measure::idle(device, &limits)?.beside(idle));
        Ok(rows)
    }
}
