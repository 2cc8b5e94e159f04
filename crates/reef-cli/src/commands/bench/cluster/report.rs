//! Table and files of `reef bench cluster`.

use super::args::Args;
use super::measure::Row;
use crate::report::columns::{Column, millis_of};
use crate::report::results::{BenchTarget, Results};
use anyhow::Result;
use serde_json::json;

/// Legend of the columns.
const LEGEND: &str = "\
BE alone, BE   best-effort inferences per second on all devices, without real-time work and next to it
RT             a request's arrival until its end, of all clients; one on each device
÷ one          ÷ what the first device does by itself, in the same round";

static COLUMNS: [Column<Row>; 12] = [
    Column::new("round", "round", 0, |row| row.round.into()),
    Column::new("devices", "devices", 0, |row| row.devices.into()),
    Column::new("be_alone_per_second", "BE alone /s", 1, |row| row.be_alone.into()),
    Column::new("be_alone_over_one", "÷ one", 2, |row| {
        row.one.map(|one| row.be_alone / one.0).into()
    }),
    Column::new("be_per_second", "BE /s", 1, |row| row.be_colocated.into()),
    Column::new("be_over_one", "÷ one", 2, |row| {
        row.one.map(|one| row.be_colocated / one.1).into()
    }),
    Column::new("rt_p50_ms", "RT p50 ms", 3, |row| millis_of(&row.latency, 0.5)),
    Column::new("rt_p99_ms", "p99", 3, |row| millis_of(&row.latency, 0.99)),
    Column::new("rt_p99_over_one", "÷ one", 2, |row| {
        row.one.map(|one| row.p99() as f64 / one.2 as f64).into()
    }),
    Column::new("requests", "requests", 0, |row| row.latency.len().into()),
    Column::new("late", "late", 0, |row| row.late.into()),
    Column::new("dropped", "dropped", 0, |row| row.dropped.into()),
];

/// Results so far.
pub(crate) fn results<'a>(args: &Args, rows: &'a [Row]) -> Results<'a, Row> {
    let facts = json!({
        "rt": args.rt, "be": args.be, "rate": args.rate, "seconds": args.time.as_secs_f64(),
        "seed": args.common.seed, "window": args.lengths.window, "graph": args.lengths.graph,
    });
    Results { bench: "cluster", facts, columns: &COLUMNS, rows }
}

/// Writes the files, prints the table.
pub(crate) fn show(args: &Args, place: &BenchTarget, rows: &[Row]) -> Result<()> {
    let measured =
        format!("RT {} at {}/s and BE {}, one of each on each device", args.rt, args.rate, args.be);
    results(args, rows).show_at(&args.common, place, &measured, LEGEND, |_, _| Ok(()))
}
