//! Measures each row of `reef bench cluster`.

use super::args::Args;
use super::measure::{Bench, Row};
use super::report;
use crate::report::progress::Progress;
use crate::report::results::BenchTarget;
use crate::report::usage::Usage;
use crate::workload::networks::check_all;
use anyhow::Result;
use reef::op::Operators;

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check()?;
    check_all(&[args.rt.clone(), args.be.clone()], &args.sizes)?;
    reef::with_devices(&args.common.device, Devices(args))?
}

/// The bench, on whichever devices were named.
struct Devices<'a>(&'a Args);

impl reef::VisitAll for Devices<'_> {
    type Output = Result<()>;

    fn visit_all<D: Operators>(self, devices: Vec<D>) -> Result<()> {
        let args = self.0;
        if devices.len() < 2 {
            let text =
                "--device must name several devices, such as cuda:* or cpu:0?units=1,cpu:1?units=1";
            return Err(Usage(format!("{text}, got {:?}", args.common.device)).into());
        }
        args.common.make_folder()?;
        let place = BenchTarget::of(&args.common, &devices[0]);
        let progress = Progress::new(1 + 2 * args.repeat as usize, args.common.json);
        progress.expect(4 * args.repeat as usize, args.time);
        progress.begin("loading");
        let mut one = Bench::new(args, &devices[..1])?;
        let mut all = Bench::new(args, &devices)?;
        let mut rows: Vec<Row> = Vec::new();
        for round in 1..=args.repeat {
            progress.begin(&format!("round {round}, one device"));
            let row = one.measure(round)?;
            let figures = row.figures();
            rows.push(row);
            progress.begin(&format!("round {round}, {} devices", devices.len()));
            rows.push(Row { one: Some(figures), ..all.measure(round)? });
            report::results(args, &rows).save_at(&args.common, &place)?;
        }
        progress.finish();
        report::show(args, &place, &rows)
    }
}
