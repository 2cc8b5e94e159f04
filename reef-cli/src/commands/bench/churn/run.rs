//! Measures each row of `reef bench churn`.

use super::args::{Args, Stay};
use super::measure::{Bench, Row};
use super::report;
use crate::report::progress::Progress;
use crate::workload::networks::networks;
use anyhow::Result;
use reef::Task;
use reef::op::Operators;

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check()?;
    reef::with_device(&args.common.device, Churn(args))?
}

/// The bench, on whichever device was named.
struct Churn<'a>(&'a Args);

impl reef::Visit for Churn<'_> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let args = self.0;
        args.common.make_folder()?;
        let rounds = args.repeat as usize * (1 + args.stay.len());
        let progress = Progress::new(1 + rounds, args.common.json);
        let rt = networks(&device, &args.sides.rt, &[], args.sides.picture(), &progress)?.rt;
        let task = Task::new(rt.network.graphs(usize::MAX)?)?;
        let bench = Bench { device: &device, args, task: &task };
        let rows = self.rows(&bench, &progress)?;
        progress.finish();
        report::show(args, &device, &rows)
    }
}

impl Churn<'_> {
    /// Each round without clients first, then with each kind.
    fn rows<D: Operators>(&self, bench: &Bench<'_, D>, progress: &Progress) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        for round in 1..=self.0.repeat {
            progress.begin(&format!("round {round}, calm"));
            let calm = bench.measure(round, None)?;
            let p99 = calm.p99();
            rows.push(calm);
            for &stay in &self.0.stay {
                progress.begin(&format!("round {round}, {}", name(stay)));
                rows.push(Row { calm: Some(p99), ..bench.measure(round, Some(stay))? });
                report::results(self.0, &rows).save(&self.0.common, bench.device)?;
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
