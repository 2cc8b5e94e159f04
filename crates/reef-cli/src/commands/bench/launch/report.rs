//! Table, files and plot of `reef bench launch`.

use super::args::Args;
use super::measure::{Row, Way};
use crate::report::chart::{self, Panel, Series};
use crate::report::columns::Column;
use crate::report::results::Results;
use crate::report::table::micros;
use anyhow::Result;
use reef::Device;
use serde_json::{Value, json};
use std::path::Path;

/// Legend of the columns.
const LEGEND: &str = "\
call     the call that hands a command over, its share of a burst
each     a command's share of a burst, from the first call until the client sees the last done
alone    one command on an idle queue, from the call until the client sees it done
guarded ÷ plain   p50 of each ÷ the same way without a preemptor, or at level HostQueue";

static COLUMNS: [Column<Row>; 13] = [
    Column::new("queue", "queue", 0, |row| queue(row.way).into()),
    Column::new("level", "level", 0, |row| level(row.way)),
    Column::new("window", "window", 0, |row| window(row.way)),
    Column::new("call_p50_us", "call p50 µs", 3, |row| micros(&row.call, 0.5).into()),
    Column::new("call_p99_us", "p99", 3, |row| micros(&row.call, 0.99).into()),
    Column::new("each_p50_us", "each p50 µs", 3, |row| micros(&row.each, 0.5).into()),
    Column::new("each_p99_us", "p99", 3, |row| micros(&row.each, 0.99).into()),
    Column::new("alone_p50_us", "alone p50 µs", 2, |row| micros(&row.trip, 0.5).into()),
    Column::new("alone_p99_us", "p99", 2, |row| micros(&row.trip, 0.99).into()),
    Column::hidden("alone_max_us", |row| micros(&row.trip, 1.0).into()),
    Column::new("guarded_over_plain", "guarded ÷ plain", 3, |row| over_plain(row).into()),
    Column::new("samples", "samples", 0, |row| row.trip.len().into()),
    Column::hidden("way", |row| row.way.to_string().into()),
];

fn queue(way: Way) -> &'static str {
    match way {
        Way::Queue(_) => "device's",
        Way::Virtual { .. } => "virtual",
    }
}

fn level(way: Way) -> Value {
    match way {
        Way::Queue(level) => level.map(|level| level.to_string()).into(),
        Way::Virtual { level, .. } => level.to_string().into(),
    }
}

fn window(way: Way) -> Value {
    match way {
        Way::Queue(_) => Value::Null,
        Way::Virtual { window, .. } => window.into(),
    }
}

fn over_plain(row: &Row) -> Option<f64> {
    row.plain.map(|plain| row.each_p50() as f64 / plain as f64)
}

/// Results so far.
pub(crate) fn results<'a>(args: &Args, rows: &'a [Row]) -> Results<'a, Row> {
    let facts = json!({ "burst": args.burst, "seconds": args.time.as_secs_f64() });
    Results { bench: "launch", facts, columns: &COLUMNS, rows }
}

fn series(row: &Row) -> Series<'_> {
    Series { name: row.way.to_string(), values: &row.trip, is_main: false }
}

/// Writes the files, prints the table.
pub(crate) fn show<D: Device>(args: &Args, device: &D, rows: &[Row]) -> Result<()> {
    let panel = Panel {
        caption: "One command that does nothing".into(),
        unit: ("µs", 1e3),
        series: rows.iter().map(series).collect(),
    };
    let draw = |plot: &Path, title: &str| chart::shares(plot, title, &[panel]);
    let measured = format!("bursts of {} commands", args.burst);
    results(args, rows).show(&args.common, device, &measured, LEGEND, draw)
}
