//! Table, files and plot of `reef bench saturate`.

use super::args::Args;
use crate::commands::bench::colocate::measure::{RT_ALONE, RT_SINGLY, Row};
use crate::report::chart;
use crate::report::columns::{Column, millis_of};
use crate::report::results::Results;
use anyhow::Result;
use reef::Device;
use serde_json::json;
use std::cmp::Reverse;
use std::path::Path;

/// Legend of the columns.
const LEGEND: &str = "\
RT       a request's latency; the next comes as soon as it has finished
BE kept  best-effort inferences per second ÷ those alone under streams
none     best-effort work waits; padded, narrow N: it runs next to it, kernel by kernel or N blocks at a time
target R as widely next to it as keeps the 99th percentile of requests at R times that alone; widths: what most of
         its requests ran next to: capped as by default, uncapped as stream-priority does, N % on that part of the
         units, N+M % with requests on N % of them, alone nothing
streams  nothing is stopped; stream-priority: nothing either, but streams of real-time work go first";

static COLUMNS: [Column<Row>; 13] = [
    Column::new("policy", "next to RT", 0, |row| row.policy.clone().into()),
    Column::new("rt_p50_ms", "RT p50 ms", 3, |row| millis_of(&row.latency, 0.5)),
    Column::new("rt_p50_over_alone", "÷ alone", 3, |row| over_alone(row, 0).into()),
    Column::new("rt_p99_ms", "RT p99 ms", 3, |row| millis_of(&row.latency, 0.99)),
    Column::new("rt_p99_over_alone", "÷ alone", 3, |row| over_alone(row, 1).into()),
    Column::hidden("rt_max_ms", |row| millis_of(&row.latency, 1.0)),
    Column::new("be_kept_percent", "BE kept %", 1, |row| kept_percent(row).into()),
    Column::hidden("be_inferences_per_second", |row| row.be_rate.into()),
    Column::new("widths", "widths", 0, |row| widths(row).into()),
    Column::new("padded_launches", "padded", 0, |row| row.stats.padded_launches.into()),
    Column::new("preemptions", "preempted", 0, |row| row.stats.preemptions.into()),
    Column::new("requests", "requests", 0, |row| row.latency.len().into()),
    Column::hidden("rt_finished", |row| row.stats.rt_finished.into()),
];

fn over_alone(row: &Row, index: usize) -> Option<f64> {
    row.over_alone().map(|over| over[index])
}

fn kept_percent(row: &Row) -> Option<f64> {
    (![RT_ALONE, RT_SINGLY].contains(&row.policy.as_str()))
        .then(|| 100.0 * row.be_rate / row.alone_rate)
}

/// The three widths of most requests, each with its part of the requests.
fn widths(row: &Row) -> Option<String> {
    let sum = row.widths.iter().map(|(_, count)| count).sum::<u64>();
    let mut most: Vec<_> = row.widths.iter().collect();
    most.sort_by_key(|(_, count)| Reverse(*count));
    let part = |count: u64| 100.0 * count as f64 / sum as f64;
    let named = most.into_iter().take(3);
    let named = named.map(|(name, count)| format!("{name}: {:.0}", part(*count)));
    (sum > 0).then(|| named.collect::<Vec<_>>().join(", "))
}

/// Results so far.
pub(crate) fn results<'a>(args: &Args, rows: &'a [Row]) -> Results<'a, Row> {
    let facts = json!({
        "rt": args.sides.rt, "be": args.sides.be, "seconds": args.sides.time.as_secs_f64(),
        "window": args.lengths.window, "graph": args.lengths.graph,
    });
    Results { bench: "saturate", facts, columns: &COLUMNS, rows }
}

/// Writes the files, prints the table.
pub(crate) fn show<D: Device>(args: &Args, device: &D, rows: &[Row]) -> Result<()> {
    let draw = |plot: &Path, _: &str| {
        let shown =
            rows.iter().filter_map(|row| Some((kept_percent(row)?, over_alone(row, 1)?, row)));
        let group = |(kept, over, row): (f64, f64, &Row)| chart::Group {
            name: row.policy.clone(),
            points: vec![(kept, over, String::new())],
        };
        let (caption, groups) = (
            format!("{} next to {}", args.sides.be, args.sides.rt),
            shown.map(group).collect::<Vec<_>>(),
        );
        chart::points(plot, &caption, ["BE kept, %", "RT p99 ÷ alone"], &groups)
    };
    let measured = format!("RT {} and BE {}, each in a closed loop", args.sides.rt, args.sides.be);
    results(args, rows).show(&args.common, device, &measured, LEGEND, draw)
}
