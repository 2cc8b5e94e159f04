//! Table and files of `reef bench hung`.

use super::args::Args;
use super::measure::Row;
use crate::report::columns::{Column, micros_of};
use crate::report::output::count;
use crate::report::results::Results;
use crate::report::time;
use anyhow::Result;
use reef::Device;
use serde_json::json;

/// Legend of the columns.
const LEGEND: &str = "\
tasks/s    best-effort tasks of all clients but the one whose kernel doesn't end
÷ alone    the same ÷ that of the same round without such a kernel
resume     from the end of a real-time task until each of these clients has finished a task
RT         a real-time task's submission until its end
error ms   when the client whose kernel doesn't end got its error";

static COLUMNS: [Column<Row>; 12] = [
    Column::new("round", "round", 0, |row| row.round.into()),
    Column::new("neighbour", "neighbour", 0, |row| neighbour(row).into()),
    Column::new("be_tasks_per_s", "tasks/s", 0, |row| row.tasks.into()),
    Column::new("be_over_alone", "÷ alone", 3, |row| over_alone(row).into()),
    Column::new("resume_p50_us", "resume p50 µs", 0, |row| micros_of(&row.resume, 0.5)),
    Column::new("resume_p99_us", "p99", 0, |row| micros_of(&row.resume, 0.99)),
    Column::new("resume_max_us", "max", 0, |row| micros_of(&row.resume, 1.0)),
    Column::new("rt_p50_us", "RT p50 µs", 0, |row| micros_of(&row.latency, 0.5)),
    Column::new("rt_p99_us", "p99", 0, |row| micros_of(&row.latency, 0.99)),
    Column::new("rt_max_us", "max", 0, |row| micros_of(&row.latency, 1.0)),
    Column::new("error_after_ms", "error ms", 0, |row| {
        row.error_after.map(|time| time.as_secs_f64() * 1e3).into()
    }),
    Column::new("requests", "requests", 0, |row| row.latency.len().into()),
];

fn neighbour(row: &Row) -> &'static str {
    if row.is_hung { "hung" } else { "nothing" }
}

fn over_alone(row: &Row) -> Option<f64> {
    row.alone.map(|alone| row.tasks / alone)
}

/// Results so far.
pub(crate) fn results<'a>(args: &Args, rows: &'a [Row]) -> Results<'a, Row> {
    let facts = json!({
        "clients": args.clients, "block_us": args.block.as_micros() as u64,
        "task_us": args.task.as_micros() as u64, "pause_us": args.pause.as_micros() as u64,
        "timeout_ms": args.timeout.as_millis() as u64, "time_s": args.time.as_secs_f64(),
    });
    Results { bench: "hung", facts, columns: &COLUMNS, rows }
}

/// Writes the files, prints the table.
pub(crate) fn show<D: Device>(args: &Args, device: &D, rows: &[Row]) -> Result<()> {
    let measured = format!(
        "{} with blocks of {}, a real-time task of {} every {}",
        count(args.clients, "best-effort client"),
        time::show(args.block),
        time::show(args.task),
        time::show(args.pause)
    );
    results(args, rows).show(&args.common, device, &measured, LEGEND, |_, _| Ok(()))
}
