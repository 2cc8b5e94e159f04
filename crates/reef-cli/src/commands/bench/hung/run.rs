//! Measures each row of `reef bench hung`.

use super::args::Args;
use super::measure::{Bench, Row};
use super::report;
use crate::commands::bench::device_bench::DeviceBench;
use crate::report::progress::Progress;
use crate::workload::calibrate::Calibration;
use anyhow::Result;
use reef::op::Operators;
use std::time::Duration;

/// Time that the kernel that doesn't end runs on after the measurement and the timeout.
const MARGIN: Duration = Duration::from_secs(4);

impl DeviceBench for Args {
    fn check(&self) -> Result<()> {
        Args::check(self)
    }

    fn measure<D: Operators>(&self, device: &D) -> Result<()> {
        let args = self;
        let progress = Progress::new(1 + 2 * args.repeat as usize, args.common.json);
        progress.expect(2 * args.repeat as usize, args.time + args.timeout);
        progress.begin("calibrating blocks");
        let calibration = Calibration::new(device)?;
        let rounds = |time| Ok::<_, anyhow::Error>(calibration.rounds(device, time)?.0);
        let task = rounds(args.task)?;
        let whole = (args.time + args.timeout + MARGIN).div_duration_f64(args.task);
        let hung = (task as f64 * whole) as u64;
        let bench = Bench { device, args, rounds: [rounds(args.block)?, task, hung] };
        let mut rows: Vec<Row> = Vec::new();
        for round in 1..=args.repeat {
            progress.begin(&format!("round {round}, alone"));
            let alone = bench.measure(round, false)?;
            let tasks = alone.tasks;
            rows.push(alone);
            progress.begin(&format!("round {round}, next to a kernel that doesn't end"));
            rows.push(Row { alone: Some(tasks), ..bench.measure(round, true)? });
            report::results(args, &rows).save(&args.common, device)?;
        }
        progress.finish();
        report::show(args, device, &rows)
    }
}
