//! Measures each row of `reef bench launch`.

use super::args::Args;
use super::measure::{self, Limits, Row, Way};
use super::report;
use crate::commands::bench::device_bench::DeviceBench;
use crate::report::progress::Progress;
use anyhow::Result;
use reef::PreemptLevel;
use reef::op::Operators;

impl DeviceBench for Args {
    fn check(&self) -> Result<()> {
        Args::check(self)
    }

    fn measure<D: Operators>(&self, device: &D) -> Result<()> {
        let args = self;
        let ways = self.ways(device.info().level);
        let progress = Progress::new(ways.len(), args.common.json);
        let time = args.time;
        progress.expect(ways.len(), time);
        let limits = Limits { samples: args.samples, time, burst: args.burst };
        let mut rows: Vec<Row> = Vec::new();
        for way in ways {
            progress.begin(&way.to_string());
            let row = measure::row(device, way, &limits)?;
            let plain = rows.iter().find(|plain| way.is_compared_with(plain.way));
            let plain = plain.map(Row::each_p50);
            rows.push(Row { plain, ..row });
            report::results(args, &rows).save(&args.common, device)?;
        }
        progress.finish();
        report::show(args, device, &rows)
    }
}

impl Args {
    /// All paths, those without guards first: others are compared with them.
    fn ways(&self, deepest: PreemptLevel) -> Vec<Way> {
        let levels = [PreemptLevel::HostQueue, PreemptLevel::DeviceQueue, PreemptLevel::All];
        let levels = levels.into_iter().filter(|&level| level <= deepest);
        let queues = [Way::Queue(None), Way::Queue(Some(deepest))];
        let virtual_queues = self
            .windows
            .iter()
            .flat_map(|&window| levels.clone().map(move |level| Way::Virtual { level, window }));
        queues.into_iter().chain(virtual_queues).collect()
    }
}
