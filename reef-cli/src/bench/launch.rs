//! `reef bench launch`: what it costs to hand over commands that do nothing.
//!
//! The command is a kernel of one block that writes its cell. Bursts of it, and single ones, go straight
//! to a queue of the device, and through virtual queues with windows of several lengths; each with a
//! preemptor and without, or at level HostQueue, where kernels have no guard.

mod measure;
mod report;

use super::policy::check_windows;
use crate::progress::Progress;
use crate::{Usage, results};
use anyhow::Result;
use measure::{Limits, Row, Way};
use reef::PreemptLevel;
use reef::op::Operators;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: results::Common,
    /// Bursts, and single commands, for each row.
    #[arg(long, default_value_t = 1000)]
    samples: usize,
    /// Most seconds for each row, which then has fewer samples.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Commands of a burst.
    #[arg(long, default_value_t = 256)]
    burst: u64,
    /// Hardware queue lengths of virtual queues.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,64")]
    windows: Vec<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    results::check_seconds(args.seconds)?;
    if !(1..=1_000_000).contains(&args.samples) {
        return Err(Usage(format!("--samples must be in 1..=1000000, got {}", args.samples)).into());
    }
    check_windows("--burst", &[args.burst])?;
    check_windows("--windows", &args.windows)?;
    reef::with_device(&args.common.device, Launch(args))?
}

/// The bench, on whichever device was named.
struct Launch<'a>(&'a Args);

impl reef::Visit for Launch<'_> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let args = self.0;
        args.common.make_folder()?;
        let ways = self.ways(device.info().level);
        let progress = Progress::new(ways.len(), args.common.json);
        let time = Duration::from_secs_f64(args.seconds);
        let limits = Limits { samples: args.samples, time, burst: args.burst };
        let mut rows: Vec<Row> = Vec::new();
        for way in ways {
            progress.begin(&way.to_string());
            let row = measure::row(&device, way, &limits)?;
            let plain = rows.iter().find(|plain| way.is_compared_with(plain.way));
            let plain = plain.map(Row::each_p50);
            rows.push(Row { plain, ..row });
            report::results(args, &rows).save(&args.common, &device)?;
        }
        progress.finish();
        report::show(args, &device, &rows)
    }
}

impl Launch<'_> {
    /// Those without guards first: others are compared with them.
    fn ways(&self, deepest: PreemptLevel) -> Vec<Way> {
        let levels = [PreemptLevel::HostQueue, PreemptLevel::DeviceQueue, PreemptLevel::All];
        let levels = levels.into_iter().filter(|&level| level <= deepest);
        let queues = [Way::Queue(None), Way::Queue(Some(deepest))];
        let virtual_queues =
            self.0.windows.iter().flat_map(|&window| {
                levels.clone().map(move |level| Way::Virtual { level, window })
            });
        queues.into_iter().chain(virtual_queues).collect()
    }
}
