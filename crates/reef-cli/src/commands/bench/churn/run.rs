//! Measures each row of `reef bench churn`.

use super::args::{Args, Stay};
use super::measure::{Bench, Row};
use super::report;
use crate::commands::bench::device_bench::DeviceBench;
use crate::report::progress::Progress;
use crate::workload::networks::networks;
use anyhow::Result;
use reef::Task;
use reef::op::Operators;

impl DeviceBench for Args {
    fn check(&self) -> Result<()> {
        Args::check(self)
    }

    fn measure<D: Operators>(&self, device: &D) -> Result<()> {
        let args = self;
        let rounds = args.repeat as usize * (1 + args.stay.len());
        let progress = Progress::new(1 + rounds, args.common.json);
        progress.expect(rounds, args.sides.time);
        let rt = networks(device, &args.sides.rt, &[], args.sides.image(), &progress)?.rt;
        let task = Task::new(rt.network.graphs(usize::MAX)?)?;
        let bench = Bench { device, args, task: &task };
        let rows = self.rows(&bench, &progress)?;
        progress.finish();
        report::show(args, device, &rows)
    }
}

impl Args {
    /// Each round without clients first, then with each kind.
    fn rows<D: Operators>(&self, bench: &Bench<'_, D>, progress: &Progress) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        for round in 1..=self.repeat {
            progress.begin(&format!("round {round}, calm"));
            let calm = bench.measure(round, None)?;
            let p99 = calm.p99();
            rows.push(calm);
            for &stay in &self.stay {
                progress.begin(&format!("round {round}, {}", name(stay)));
                rows.push(Row { calm: Some(p99), ..bench.measure(round, Some(stay))? });
                report::results(self, &rows).save(&self.common, bench.device)?;
            }
        }
        Ok(rows)
    }
}

fn name(stay: Stay) -> &'static str {
    match stay {
        Stay::Register => "clients that register",
        Stay::Load => "clients that load a network",
        Stay::Run => "clients that run a network",
    }
}
