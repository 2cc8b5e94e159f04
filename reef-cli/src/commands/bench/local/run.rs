//! Measures each row of `reef bench local`.

use super::args::Args;
use super::measure::{Bench, Row};
use super::report;
use super::way::Way;
use crate::report::progress::Progress;
use anyhow::Result;
use reef::op::Operators;

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check()?;
    reef::with_device(&args.common.device, Local(args))?
}

/// The bench, on whichever device was named.
struct Local<'a>(&'a Args);

impl reef::Visit for Local<'_> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let args = self.0;
        args.common.make_folder()?;
        let progress = Progress::new(1 + args.repeat as usize, args.common.json);
        progress.begin(&format!("loading {}, and starting daemons", args.network));
        let mut bench = Bench::new(args, &device)?;
        let mut rows = Way::EACH.map(Row::new).into_iter().collect::<Vec<_>>();
        for round in 1..=args.repeat {
            progress.begin(&format!("round {round}"));
            rows.iter_mut().try_for_each(|row| bench.turn(row))?;
        }
        progress.finish();
        report::show(args, &device, rows)
    }
}
