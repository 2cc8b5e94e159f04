//! Measures each row of `reef bench local`.

use super::args::Args;
use super::measure::{Bench, Row, WARM_UP};
use super::report;
use super::way::Way;
use crate::commands::bench::device_bench::DeviceBench;
use crate::report::progress::Progress;
use anyhow::Result;
use reef::op::Operators;

impl DeviceBench for Args {
    fn check(&self) -> Result<()> {
        Args::check(self)
    }

    fn measure<D: Operators>(&self, device: &D) -> Result<()> {
        let args = self;
        let progress = Progress::new(1 + args.repeat as usize, args.common.json);
        let turns = Way::ALL.len() * args.repeat as usize;
        progress.expect(turns, args.period * (WARM_UP + args.requests));
        progress.begin(&format!("loading {}, and starting daemons", args.network));
        let mut bench = Bench::new(args, device)?;
        let mut rows = Way::ALL.map(Row::new).into_iter().collect::<Vec<_>>();
        for round in 1..=args.repeat {
            progress.begin(&format!("round {round}"));
            rows.iter_mut().try_for_each(|row| bench.turn(row))?;
        }
        progress.finish();
        report::show(args, device, rows)
    }
}
