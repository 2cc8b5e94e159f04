//! `reef bench pair`: what a real-time network pays for company, and what the company keeps.

mod arrivals;
mod measure;
mod report;

use super::policy::{Choice, Policy};
use crate::networks::{Named, Networks, Picture, check, networks};
use crate::progress::Progress;
use crate::{Usage, results};
use anyhow::Result;
pub(super) use arrivals::Arrivals;
pub(super) use measure::{Bench, Row};
use reef::PreemptLevel;
use reef::op::Operators;
use std::time::Duration;

/// Names of the rows that others are compared with.
const RT_ALONE: &str = "rt-only (alone)";
const BE_ALONE: &str = "BE alone";
const RT_COLD: &str = "rt-only (caches emptied)";
/// Most requests per second: more would be a typing error.
const MOST_RATE: f64 = 100_000.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: results::Common,
    /// The real-time client's network.
    #[arg(long, default_value = "resnet50")]
    rt: String,
    /// The best-effort client's network.
    #[arg(long, default_value = "resnet152")]
    be: String,
    /// Real-time requests per second, arriving at random.
    #[arg(long, value_delimiter = ',', default_value = "100,400")]
    rates: Vec<f64>,
    /// Also the next real-time request as soon as one has finished.
    #[arg(long)]
    closed: bool,
    /// Also real-time requests alone, this many MiB of memory filled before each: what it costs that others
    /// have used the caches, whatever the scheduler does.
    #[arg(long, value_name = "MIB", requires = "closed", value_parser = clap::value_parser!(u32).range(1..=65536))]
    cold: Option<u32>,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Rows and columns of all pictures, instead of the networks' own.
    #[arg(long)]
    size: Option<usize>,
    #[command(flatten)]
    choice: Choice,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    results::check_seconds(args.seconds)?;
    args.choice.check()?;
    if let Some(wrong) = args.rates.iter().find(|&&rate| !(rate > 0.0 && rate <= MOST_RATE)) {
        return Err(Usage(format!("--rates must be in 0..={MOST_RATE}, got {wrong}")).into());
    }
    reef::with_device(&args.common.device, Pair(args))?
}

/// The bench, on whichever device was named.
struct Pair<'a>(&'a Args);

impl reef::Visit for Pair<'_> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let args = self.0;
        let picture = Picture { file: None, size: args.size };
        let be = std::slice::from_ref(&args.be);
        check(&args.rt, be, picture)?;
        let deepest = device.info().level;
        let policies = self.policies(deepest)?.len();
        args.common.make_folder()?;
        let arrivals = self.arrivals();
        let steps = 4 + usize::from(args.cold.is_some()) + arrivals.len() * (1 + policies);
        let progress = Progress::new(steps, args.common.json);
        let networks = networks(&device, &args.rt, be, picture, &progress)?;
        progress.begin("measuring kernels");
        let Networks { rt, be } = networks.profiled(&device)?;
        let be: Named<D> = be.into_iter().next().expect("one was asked for");
        let time = Duration::from_secs_f64(args.seconds);
        let bench = Bench { device: &device, rt, be, time, lengths: &args.choice.lengths };
        let rows = self.rows(&bench, &arrivals, &progress)?;
        progress.finish();
        report::show(args, &device, &rows)
    }
}

impl Pair<'_> {
    fn arrivals(&self) -> Vec<Arrivals> {
        let (args, seed) = (self.0, self.0.common.seed);
        let random = args.rates.iter().map(|&rate| Arrivals::Random { rate, seed });
        random.chain(args.closed.then_some(Arrivals::Closed)).collect()
    }

    fn policies(&self, deepest: PreemptLevel) -> Result<Vec<Policy>, Usage> {
        let baselines =
            ["sequential", "streams", "stream-priority", "wait-based"].map(Policy::named);
        let reefs = [false, true].map(|pad| Policy::reef(deepest, pad));
        self.0.choice.of(baselines.into_iter().chain(reefs), deepest)
    }

    /// Each side alone, then both together under each policy, for all arrivals.
    fn rows<D: Operators>(
        &self,
        bench: &Bench<'_, D>,
        arrivals: &[Arrivals],
        progress: &Progress,
    ) -> Result<Vec<Row>> {
        progress.begin(BE_ALONE);
        let be_alone = bench.be_alone()?;
        let kept = be_alone.be_rate;
        let mut rows = vec![be_alone.beside(None, kept)];
        for arrivals in arrivals {
            progress.begin(&format!("{arrivals}, {RT_ALONE}"));
            let alone = bench.rt_alone(arrivals)?;
            let times = Some(alone.quantiles());
            rows.push(alone.beside(times, kept));
            if let (Arrivals::Closed, Some(mib)) = (arrivals, self.0.cold) {
                progress.begin(RT_COLD);
                rows.push(bench.rt_cold((mib as usize) << 20)?.beside(times, kept));
            }
            for policy in self.policies(bench.device.info().level)? {
                progress.begin(&format!("{arrivals}, {}", policy.name));
                rows.push(bench.both(arrivals, policy)?.beside(times, kept));
                report::results(self.0, &rows).save(&self.0.common, bench.device)?;
            }
        }
        Ok(rows)
    }
}
