//! Tables, files and plot of `reef bench start`.

use super::args::Args;
use super::load::Load;
use super::measure::Row;
use crate::report::chart::{self, Panel, Series};
use crate::report::columns::{Column, micros_of as at};
use crate::report::results::Results;
use crate::report::table::micros;
use anyhow::Result;
use reef::op::Operators;
use serde_json::{Value, json};
use std::path::Path;

/// Meaning of the columns. Files have more of them.
const LEGEND: &str = "\
ran          a real-time kernel of one block: submitted until its block has run
÷ bare       ran p50 over a bare launch of the same kernel on an idle device
over idle    ran p99 less that of an idle device
quiesced     a preemption alone: call until the device confirms that nothing of the queue runs
resumed      a restore alone: call until the client sees a first command completed, what was left of it included
exactly once each best-effort block took effect once, in order (networks: of two images in turn, all logits as alone)
--json and --out have all quantiles.";

/// Policy of REEF's deepest level, which charts are about.
const DEEPEST: &str = "All";

const fn hidden(name: &'static str, value: fn(&Row) -> Value) -> Column<Row> {
    Column { name, title: "", decimals: 1, value }
}

const fn column(name: &'static str, title: &'static str, value: fn(&Row) -> Value) -> Column<Row> {
    Column { name, title, decimals: 1, value }
}

static COLUMNS: [Column<Row>; 27] = [
    column("load", "best-effort load", |row| row.load.clone().into()),
    column("queued", "queued", |row| row.queued.into()),
    hidden("window", |row| row.window.into()),
    column("scheduler", "scheduler", |row| row.policy.clone().into()),
    column("ran_p50_us", "ran p50 µs", |row| at(&row.ran, 0.5)),
    hidden("ran_p90_us", |row| at(&row.ran, 0.9)),
    column("ran_p99_us", "ran p99 µs", |row| at(&row.ran, 0.99)),
    hidden("ran_max_us", |row| at(&row.ran, 1.0)),
    hidden("seen_p50_us", |row| at(&row.seen, 0.5)),
    hidden("seen_p99_us", |row| at(&row.seen, 0.99)),
    Column { decimals: 2, ..column("ran_over_bare", "÷ bare", over_bare) },
    hidden("over_idle_p50_us", |row| over_idle(row, 0, 0.5)),
    column("over_idle_p99_us", "over idle p99 µs", |row| over_idle(row, 1, 0.99)),
    hidden("start_p50_us", |row| at(&row.start, 0.5)),
    hidden("start_p90_us", |row| at(&row.start, 0.9)),
    hidden("start_p99_us", |row| at(&row.start, 0.99)),
    hidden("start_max_us", |row| at(&row.start, 1.0)),
    hidden("quiesced_p50_us", |row| quiesced(row, 0.5)),
    column("quiesced_p99_us", "quiesced p99 µs", |row| quiesced(row, 0.99)),
    hidden("quiesced_max_us", |row| quiesced(row, 1.0)),
    hidden("resumed_p50_us", |row| resumed(row, 0.5)),
    column("resumed_p99_us", "resumed p99 µs", |row| resumed(row, 0.99)),
    hidden("resumed_max_us", |row| resumed(row, 1.0)),
    hidden("requests", |row| row.seen.len().into()),
    column("preemptions", "preemptions", |row| row.preemptions.into()),
    hidden("be_tasks", |row| row.tasks.into()),
    column("be_right", "exactly once", |row| row.right.into()),
];

fn over_bare(row: &Row) -> Value {
    if row.ran.is_empty() || row.bare == 0 {
        return Value::Null;
    }
    (row.ran.value_at_quantile(0.5) as f64 / row.bare as f64).into()
}

fn over_idle(row: &Row, index: usize, quantile: f64) -> Value {
    if row.ran.is_empty() {
        return Value::Null;
    }
    (micros(&row.ran, quantile) - row.idle[index] as f64 / 1e3).into()
}

fn quiesced(row: &Row, quantile: f64) -> Value {
    row.preempt_restore.as_ref().map_or(Value::Null, |times| at(&times.quiesced, quantile))
}

fn resumed(row: &Row, quantile: f64) -> Value {
    row.preempt_restore.as_ref().map_or(Value::Null, |times| at(&times.resumed, quantile))
}

/// Results so far.
pub(crate) fn results<'a, D: Operators>(loads: &[Load<D>], rows: &'a [Row]) -> Results<'a, Row> {
    let facts = json!({ "loads": loads.iter().map(load_json).collect::<Vec<_>>() });
    Results { bench: "start", facts, columns: &COLUMNS, rows }
}

/// Writes the files, prints the table.
pub(crate) fn show<D: Operators>(
    args: &Args,
    device: &D,
    loads: &[Load<D>],
    rows: &[Row],
) -> Result<()> {
    let measured = loads.iter().map(load_line).collect::<Vec<_>>().join("\n");
    let draw = |plot: &Path, title: &str| {
        chart::shares(plot, &format!("From submission to the run, {title}"), &panels(rows))
    };
    results(loads, rows).show(&args.common, device, &measured, LEGEND, draw)
}

/// Parts of a load, and the cost of being preemptible.
fn load_line<D: Operators>(load: &Load<D>) -> String {
    let micros = |time: std::time::Duration| time.as_nanos() as f64 / 1e3;
    let block = load.block.map_or(String::new(), |block| format!("{:.1} µs each; ", micros(block)));
    let (plain, guarded) = (micros(load.alone[0]), load.guarded());
    format!("{}: {block}{plain:.1} µs alone, guarded ÷ plain {guarded:.4}", load.name)
}

fn load_json<D: Operators>(load: &Load<D>) -> Value {
    let micros = |time: std::time::Duration| time.as_nanos() as f64 / 1e3;
    json!({
        "name": load.name,
        "block_us": load.block.map(micros),
        "alone_plain_us": micros(load.alone[0]),
        "alone_guarded_us": micros(load.alone[1]),
        "guarded_over_plain": load.guarded(),
    })
}

/// A panel for each load and number of queued commands, with the idle device in each.
fn panels(rows: &[Row]) -> Vec<Panel<'_>> {
    let mut cases: Vec<(&str, u64)> = Vec::new();
    for row in rows {
        let case = row.queued.map(|queued| (&*row.load, queued));
        cases.extend(case.filter(|case| !cases.contains(case)));
    }
    cases.into_iter().map(|(load, queued)| panel(load, queued, rows)).collect()
}

fn panel<'r>(load: &str, queued: u64, rows: &'r [Row]) -> Panel<'r> {
    let is_of = |row: &&Row| row.is_idle() || (row.load == load && row.queued == Some(queued));
    let series = |row: &'r Row| Series {
        name: row.queued.map_or(&row.load, |_| &row.policy).clone(),
        values: &row.ran,
        is_main: row.policy == DEEPEST,
    };
    Panel {
        caption: format!("Next to {load}, {queued} queued"),
        unit: ("µs", 1e3),
        series: rows.iter().filter(is_of).map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(load: &str, policy: &str, queued: Option<u64>) -> Row {
        Row { queued, ..Row::new(load, policy) }
    }

    /// As in figures 12 and 13 of REEF's paper, by the depth of the queue and by the load.
    #[test]
    fn each_load_and_depth_has_a_panel_with_the_idle_device() {
        let cases = [("1 ms blocks", 1), ("1 ms blocks", 4), ("20 µs blocks", 1)];
        let mut rows = vec![row("idle device", "", None)];
        for (load, queued) in cases {
            rows.extend(["All", "wait-based"].map(|policy| row(load, policy, Some(queued))));
        }
        let panels = panels(&rows);
        assert_eq!(panels.len(), cases.len());
        for (panel, (load, queued)) in panels.iter().zip(cases) {
            assert_eq!(panel.caption, format!("Next to {load}, {queued} queued"));
            let names: Vec<&str> = panel.series.iter().map(|series| &*series.name).collect();
            assert_eq!(names, ["idle device", "All", "wait-based"]);
        }
    }
}
