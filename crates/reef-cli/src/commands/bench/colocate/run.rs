//! Measures each row of `reef bench colocate`.

use super::args::Args;
use super::arrivals::Arrivals;
use super::measure::{BE_ALONE, Bench, RT_ALONE, RT_COLD, Row};
use super::report;
use crate::commands::bench::device_bench::DeviceBench;
use crate::commands::bench::policy::Policy;
use crate::report::progress::Progress;
use crate::report::usage::Usage;
use crate::workload::baselines;
use crate::workload::networks::{NamedNetwork, Networks, networks};
use anyhow::Result;
use reef::PreemptLevel;
use reef::op::Operators;

/// Steps that come before measurements.
const LOADING: usize = 3;

impl DeviceBench for Args {
    fn check(&self) -> Result<()> {
        Args::check(self)
    }

    fn measure<D: Operators>(&self, device: &D) -> Result<()> {
        let args = self;
        let sides = &args.sides;
        let deepest = device.info().level;
        let policies = self.policies(deepest)?.len();
        let arrivals = self.arrivals();
        let steps =
            LOADING + 1 + usize::from(args.cold.is_some()) + arrivals.len() * (1 + policies);
        let progress = Progress::new(steps, args.common.json);
        progress.expect(steps - LOADING, sides.time);
        let networks = networks(device, &sides.rt, sides.best_effort(), sides.image(), &progress)?;
        progress.begin("measuring kernels");
        let Networks { rt, be } = networks.profiled(device)?;
        let be: NamedNetwork<D> = be.into_iter().next().expect("one was asked for");
        let time = sides.time;
        let bench = Bench { device, rt, be, time, lengths: &args.choice.lengths };
        let rows = self.rows(&bench, &arrivals, &progress)?;
        progress.finish();
        report::show(args, device, &rows)
    }
}

impl Args {
    fn arrivals(&self) -> Vec<Arrivals> {
        let (args, seed) = (self, self.common.seed);
        let random = args.rates.iter().map(|&rate| Arrivals::Random { rate, seed });
        random.chain(args.closed.then_some(Arrivals::Closed)).collect()
    }

    fn policies(&self, deepest: PreemptLevel) -> Result<Vec<Policy>, Usage> {
        self.choice.of(baselines::BOTH.map(|name| Policy::baseline(name, deepest)), deepest)
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
        let mut rows = vec![be_alone.with_alone(None, kept)];
        for arrivals in arrivals {
            progress.begin(&format!("{arrivals}, {RT_ALONE}"));
            let alone = bench.rt_alone(arrivals)?;
            let times = Some(alone.quantiles());
            rows.push(alone.with_alone(times, kept));
            if let (Arrivals::Closed, Some(bytes)) = (arrivals, self.cold) {
                progress.begin(RT_COLD);
                rows.push(bench.rt_cold(bytes as usize)?.with_alone(times, kept));
            }
            for policy in self.policies(bench.device.info().level)? {
                progress.begin(&format!("{arrivals}, {}", policy.name));
                rows.push(bench.run_both(arrivals, policy)?.with_alone(times, kept));
                report::results(self, &rows).save(&self.common, bench.device)?;
            }
        }
        Ok(rows)
    }
}
