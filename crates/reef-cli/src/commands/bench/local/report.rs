//! Table and files of `reef bench local`.

use super::args::Args;
use super::measure::Row;
use super::way::Side;
use crate::report::columns::Column;
use crate::report::output::count;
use crate::report::results::Results;
use crate::report::table::{micros, millis};
use crate::report::time;
use anyhow::Result;
use hdrhistogram::Histogram;
use reef::Device;
use serde_json::{Value, json};

/// Legend of the columns.
const LEGEND: &str = "\
+       above the same in process, in ms
in µs, p50 of each part by itself:
copy in  the input to memory that the device reads, and the request behind it
way in   from then until the daemon's thread began with it
infer    from submission to the device until that was seen to have ended
start    of that, until the first command could start
way out  from the answer until the client's thread saw it
rest     what is left: checks and notes, the output's copy";

static COLUMNS: [Column<Row>; 14] = [
    Column::new("way", "way", 0, |row| row.way.name().into()),
    Column::new("p50_ms", "p50 ms", 3, |row| millis(&row.latency, P50).into()),
    Column::new("p99_ms", "p99", 3, |row| millis(&row.latency, P99).into()),
    Column::new("p50_more_ms", "+ p50", 3, |row| row.more.map(|[p50, _]| p50).into()),
    Column::new("p99_more_ms", "+ p99", 3, |row| row.more.map(|[_, p99]| p99).into()),
    Column::new("copy_in_p50_us", "copy in", 1, |row| micros(&row.copy_in, P50).into()),
    Column::new("way_in_p50_us", "way in", 1, |row| by_daemon(row, &row.way_in, P50)),
    Column::hidden("way_in_p99_us", |row| by_daemon(row, &row.way_in, P99)),
    Column::new("infer_p50_us", "infer", 1, |row| micros(&row.infer, P50).into()),
    Column::new("start_p50_us", "start", 1, |row| micros(&row.delay, P50).into()),
    Column::new("way_out_p50_us", "way out", 1, |row| by_daemon(row, &row.way_out, P50)),
    Column::hidden("way_out_p99_us", |row| by_daemon(row, &row.way_out, P99)),
    Column::new("rest_p50_us", "rest", 1, |row| micros(&row.rest, P50).into()),
    Column::new("requests", "requests", 0, |row| row.latency.len().into()),
];

const P50: f64 = 0.5;
const P99: f64 = 0.99;

fn by_daemon(row: &Row, times: &Histogram<u64>, quantile: f64) -> Value {
    (row.way.side != Side::Library).then(|| micros(times, quantile)).into()
}

/// Notes in each row of a daemon how much more it has than the library with an input that is where
/// its is.
fn compare(rows: &mut [Row]) {
    let latency = |row: &Row| [P50, P99].map(|quantile| millis(&row.latency, quantile));
    let is_library = |row: &&Row| row.way.side == Side::Library;
    let libraries: Vec<_> =
        rows.iter().filter(is_library).map(|row| (row.way.is_staged, latency(row))).collect();
    for row in rows.iter_mut().filter(|row| row.way.side != Side::Library) {
        let library = libraries.iter().find(|(is_staged, _)| *is_staged == row.way.is_staged);
        let [p50, p99] = latency(row);
        row.more = library.map(|(_, library)| [p50 - library[0], p99 - library[1]]);
    }
}

/// Writes the files, prints the table.
pub(super) fn show<D: Device>(args: &Args, device: &D, mut rows: Vec<Row>) -> Result<()> {
    compare(&mut rows);
    let facts = json!({
        "network": args.network, "period_ms": args.period.as_secs_f64() * 1e3, "rounds": args.repeat,
        "spin_us": args.spin.as_micros() as u64,
    });
    let results = Results { bench: "local", facts, columns: &COLUMNS, rows: &rows };
    let measured = format!(
        "{} every {}, {} of {}",
        args.network,
        time::show(args.period),
        count(args.repeat as usize, "turn"),
        count(args.requests as usize, "request")
    );
    results.show(&args.common, device, &measured, LEGEND, |_, _| Ok(()))
}
