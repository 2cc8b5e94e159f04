//! Table and files of `reef bench churn`.

use super::args::{Args, Stay};
use super::measure::Row;
use crate::report::columns::{Column, millis_of};
use crate::report::results::Results;
use crate::report::table::p999_millis;
use anyhow::Result;
use clap::ValueEnum;
use reef::Device;
use serde_json::{Value, json};

/// Legend of the columns.
const LEGEND: &str = "\
RT       a request's arrival until its end; requests arrive whatever became of those before
÷ calm   p99 ÷ that of the same round without clients
late     submitted more than 1 ms after the arrival: this process found no core";

static COLUMNS: [Column<Row>; 12] = [
    Column::new("round", "round", 0, |row| row.round.into()),
    Column::new("clients_do", "clients", 0, |row| stay(row.stay).into()),
    Column::new("rt_p50_ms", "RT p50 ms", 3, |row| millis_of(&row.latency, 0.5)),
    Column::new("rt_p90_ms", "p90", 3, |row| millis_of(&row.latency, 0.9)),
    Column::new("rt_p99_ms", "p99", 3, |row| millis_of(&row.latency, 0.99)),
    Column::new("rt_p999_ms", "p99.9", 3, |row| p999_millis(&row.latency).into()),
    Column::hidden("rt_max_ms", |row| millis_of(&row.latency, 1.0)),
    Column::new("rt_p99_over_calm", "÷ calm", 3, |row| row.over_calm().into()),
    Column::new("clients", "came", 0, |row| row.clients.into()),
    Column::new("requests", "requests", 0, |row| row.latency.len().into()),
    Column::new("late", "late", 0, |row| row.late.into()),
    Column::new("dropped", "dropped", 0, |row| row.dropped.into()),
];

fn stay(stay: Option<Stay>) -> String {
    let name = stay.and_then(|stay| stay.to_possible_value());
    name.map_or("calm".into(), |name| name.get_name().to_owned())
}

/// Results so far.
pub(crate) fn results<'a>(args: &Args, rows: &'a [Row]) -> Results<'a, Row> {
    let facts = json!({
        "rt": args.sides.rt, "be": args.sides.be, "rate": args.rate, "clients": args.clients,
        "seconds": args.sides.time.as_secs_f64(), "seed": args.common.seed, "window": args.lengths.window,
        "graph": args.lengths.graph, "p99_over_calm": means(args, rows),
    });
    Results { bench: "churn", facts, columns: &COLUMNS, rows }
}

/// p99 ÷ calm in the mean of the rounds, for each thing that clients do.
fn means(args: &Args, rows: &[Row]) -> Value {
    let of = |wanted: &Stay| {
        let rows = rows.iter().filter(|row| row.stay == Some(*wanted));
        let ratios: Vec<f64> = rows.filter_map(Row::over_calm).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        (stay(Some(*wanted)), Value::from(mean))
    };
    args.stay.iter().map(of).collect::<serde_json::Map<_, _>>().into()
}

/// Writes the files, prints the table.
pub(crate) fn show<D: Device>(args: &Args, device: &D, rows: &[Row]) -> Result<()> {
    let legend = format!("p99 ÷ calm, mean: {}\n{LEGEND}", means(args, rows));
    let measured = format!(
        "RT {} at {}/s, {} clients/s of {}",
        args.sides.rt, args.rate, args.clients, args.sides.be
    );
    results(args, rows).show(&args.common, device, &measured, &legend, |_, _| Ok(()))
}
