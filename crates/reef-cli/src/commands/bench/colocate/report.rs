//! Table, files and plot of `reef bench colocate`.

use super::args::Args;
use super::measure::{RT_ALONE, RT_COLD, Row};
use crate::report::chart;
use crate::report::columns::{Column, millis_of};
use crate::report::results::Results;
use crate::report::table::p999_millis;
use anyhow::Result;
use reef::Device;
use serde_json::json;
use std::path::Path;

/// Legend of the columns.
const LEGEND: &str = "\
RT       a request's arrival until its end; requests arrive whatever became of those before
BE kept  best-effort inferences per second ÷ those alone under streams
late     submitted more than 1 ms after the arrival: this process found no core
dropped  refused or not finished in twice the time; in the latencies with the time that they waited";

static COLUMNS: [Column<Row>; 16] = [
    Column::new("arrivals", "RT requests", 0, |row| row.arrivals.map(|a| a.to_string()).into()),
    Column::new("scheduler", "scheduler", 0, |row| row.policy.clone().into()),
    Column::new("rt_p50_ms", "RT p50 ms", 2, |row| millis_of(&row.latency, 0.5)),
    Column::new("rt_p90_ms", "p90", 2, |row| millis_of(&row.latency, 0.9)),
    Column::new("rt_p99_ms", "p99", 2, |row| millis_of(&row.latency, 0.99)),
    Column::new("rt_p999_ms", "p99.9", 2, |row| p999_millis(&row.latency).into()),
    Column::hidden("rt_max_ms", |row| millis_of(&row.latency, 1.0)),
    Column::new("rt_p99_over_alone", "p99 ÷ alone", 3, |row| over_alone(row).into()),
    Column::new("be_kept_percent", "BE kept %", 1, |row| kept_percent(row).into()),
    Column::hidden("be_inferences_per_second", |row| row.be_rate.into()),
    Column::new("preemptions", "preempted", 0, |row| row.stats.preemptions.into()),
    Column::new("padded_launches", "padded", 0, |row| row.stats.padded_launches.into()),
    Column::new("requests", "requests", 0, |row| row.latency.len().into()),
    Column::new("late", "late", 0, |row| row.late.into()),
    Column::new("dropped", "dropped", 0, |row| row.dropped.into()),
    Column::hidden("rt_finished", |row| row.stats.rt_finished.into()),
];

fn over_alone(row: &Row) -> Option<f64> {
    row.over_alone().map(|[_, p99]| p99)
}

fn kept_percent(row: &Row) -> Option<f64> {
    (![RT_ALONE, RT_COLD].contains(&row.policy.as_str()))
        .then(|| 100.0 * row.be_rate / row.alone_rate)
}

/// Results so far.
pub(crate) fn results<'a>(args: &Args, rows: &'a [Row]) -> Results<'a, Row> {
    let facts = json!({
        "rt": args.sides.rt, "be": args.sides.be, "seconds": args.sides.time.as_secs_f64(), "seed": args.common.seed,
        "window": args.choice.lengths.window,
        "graph": args.choice.lengths.graph,
    });
    Results { bench: "colocate", facts, columns: &COLUMNS, rows }
}

/// Writes the files, prints the table.
pub(crate) fn show<D: Device>(args: &Args, device: &D, rows: &[Row]) -> Result<()> {
    let measured = format!("RT {}, BE {} in a closed loop", args.sides.rt, args.sides.be);
    let draw = |plot: &Path, _: &str| draw(plot, args, rows);
    results(args, rows).show(&args.common, device, &measured, LEGEND, draw)
}

/// A point for each row with both sides; the best are low and to the right.
fn draw(path: &Path, args: &Args, rows: &[Row]) -> Result<()> {
    let mut groups: Vec<chart::Group> = Vec::new();
    for row in rows {
        let (Some(arrivals), Some(kept), Some(over)) =
            (row.arrivals, kept_percent(row), over_alone(row))
        else {
            continue;
        };
        let point = (kept, over, arrivals.to_string());
        match groups.iter_mut().find(|group| group.name == row.policy) {
            Some(group) => group.points.push(point),
            None => groups.push(chart::Group { name: row.policy.clone(), points: vec![point] }),
        }
    }
    let caption = format!("{} next to {}", args.sides.rt, args.sides.be);
    chart::points(path, &caption, ["BE kept, %", "RT p99 ÷ alone"], &groups)
}
