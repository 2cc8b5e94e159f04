//! DISB's report, unchanged but for what is added; and a table, CSV and a plot.

use super::args::{Args, BE_ALONE};
use super::config::Workload;
use super::measure::Run;
use super::requests::{Phases, Requests};
use crate::report::chart;
use crate::report::columns::{Column, as_table};
use crate::report::date::date;
use crate::report::output::{print, save};
use crate::report::results::{BenchTarget, Results, print_files};
use crate::report::table::{micros, millis, p999_millis};
use anyhow::{Context, Result};
use reef::{Stats, queue::Config};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

/// Legend of the columns.
const LEGEND: &str = "\
mean     a request's launch until its output is read; requests launch when the load says so, or later
÷ alone  the same, over what it takes alone on the device
due p99  from the moment on at which it should have launched; skipped moments are in no row
BE kept  what all best-effort requests would take alone ÷ the same without real-time ones under streams
skipped  moments to launch that passed while the request before was running";

/// One client, or all of a class, under one scheduler.
pub(crate) struct Row {
    policy: String,
    client: String,
    /// It stands for all clients of a class.
    all: bool,
    real_time: bool,
    requests: Requests,
    /// Time of all these requests alone.
    alone: Duration,
    seconds: f64,
    stats: Stats,
    /// Time alone of the requests in a run without real-time tasks; best-effort rows only.
    work_alone: Option<Duration>,
}

static COLUMNS: [Column<Row>; 19] = [
    Column::new("scheduler", "scheduler", 0, |row| row.policy.clone().into()),
    Column::new("client", "client", 0, |row| row.client.clone().into()),
    Column::new("requests_per_second", "requests/s", 1, |row| row.rate().into()),
    Column::new("mean_ms", "mean ms", 2, |row| row.some(|r| ms(r.mean().total()))),
    Column::new("mean_over_alone", "÷ alone", 3, |row| row.over_alone().into()),
    Column::new("p50_ms", "p50", 2, |row| row.quantile(0.5)),
    Column::new("p90_ms", "p90", 2, |row| row.quantile(0.9)),
    Column::new("p99_ms", "p99", 2, |row| row.quantile(0.99)),
    Column::new("p999_ms", "p99.9", 2, |row| p999_millis(&row.requests.latency).into()),
    Column::new("due_p99_ms", "due p99", 2, |row| {
        row.some(|requests| millis(&requests.from_due, 0.99).into())
    }),
    Column::hidden("max_ms", |row| row.quantile(1.0)),
    Column::new("be_kept_percent", "BE kept %", 1, |row| row.kept_percent().into()),
    Column::new("preemptions", "preempted", 0, |row| row.scheduler_total(row.stats.preemptions)),
    Column::new("padded_launches", "padded", 0, |row| {
        row.scheduler_total(row.stats.padded_launches)
    }),
    Column::new("skipped", "skipped", 0, |row| row.requests.skipped.into()),
    Column::hidden("requests", |row| row.requests.latency.len().into()),
    Column::hidden("unfinished", |row| row.requests.unfinished.into()),
    Column::hidden("preprocess_us", |row| row.some(|r| us(r.mean().preprocess).into())),
    Column::hidden("infer_us", |row| row.some(|r| us(r.mean().infer).into())),
];

fn ms(time: Duration) -> Value {
    (time.as_secs_f64() * 1e3).into()
}

/// Whole microseconds, as DISB reports.
fn us(time: Duration) -> u64 {
    time.as_micros() as u64
}

impl Row {
    fn rate(&self) -> f64 {
        self.requests.latency.len() as f64 / self.seconds
    }

    fn some(&self, value: impl Fn(&Requests) -> Value) -> Value {
        if self.requests.latency.is_empty() { Value::Null } else { value(&self.requests) }
    }

    fn quantile(&self, quantile: f64) -> Value {
        self.some(|requests| millis(&requests.latency, quantile).into())
    }

    fn over_alone(&self) -> Option<f64> {
        let sum = self.requests.sum.total().as_secs_f64();
        (!self.alone.is_zero()).then(|| sum / self.alone.as_secs_f64())
    }

    fn kept_percent(&self) -> Option<f64> {
        let work = self.work_alone.filter(|work| !work.is_zero())?;
        Some(100.0 * self.alone.as_secs_f64() / work.as_secs_f64())
    }

    /// A number of the scheduler. It is shown once, in the row of all its real-time requests.
    fn scheduler_total(&self, number: u64) -> Value {
        if self.all && self.real_time { number.into() } else { Value::Null }
    }
}

/// Each client and each class of each run.
pub(crate) fn rows(
    workload: &Workload,
    runs: &[Run],
    alone: &[Phases],
    time: Duration,
) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for run in runs {
        for real_time in [true, false] {
            let begin = rows.len();
            for (k, task) in workload.tasks.iter().enumerate() {
                let Some(requests) =
                    run.requests[k].clone().filter(|_| task.real_time == real_time)
                else {
                    continue;
                };
                rows.push(Row {
                    policy: run.policy.clone(),
                    client: task.id.clone(),
                    all: false,
                    real_time,
                    alone: alone[k].total() * requests.latency.len() as u32,
                    requests,
                    seconds: time.as_secs_f64(),
                    stats: run.stats,
                    work_alone: None,
                });
            }
            let class = total(&rows[begin..]);
            rows.extend(class);
        }
    }
    compare(&mut rows);
    rows
}

/// All clients of a class.
fn total(clients: &[Row]) -> Option<Row> {
    let first = clients.first()?;
    let mut requests = Requests::default();
    clients.iter().for_each(|row| requests.merge(&row.requests));
    Some(Row {
        policy: first.policy.clone(),
        client: if first.real_time { "all RT" } else { "all BE" }.into(),
        all: true,
        alone: clients.iter().map(|row| row.alone).sum(),
        requests,
        ..*first
    })
}

/// Best-effort clients with themselves without real-time ones, if that was measured.
fn compare(rows: &mut [Row]) {
    let alone: Vec<(String, Duration)> = rows
        .iter()
        .filter(|row| row.policy == BE_ALONE)
        .map(|row| (row.client.clone(), row.alone))
        .collect();
    for row in rows.iter_mut().filter(|row| !row.real_time) {
        let same = alone.iter().find(|(client, _)| *client == row.client);
        row.work_alone = same.map(|(_, work)| *work);
    }
}

/// Report of one run with DISB's keys, and with percentiles and skipped launches.
pub(crate) fn disb(workload: &Workload, run: &Run, alone: &[Phases], time: Duration) -> Value {
    let at = |time| date(time).replace('T', " ").replace('Z', "");
    let ran = run.requests.iter().zip(&workload.tasks).zip(alone);
    let results = ran.filter_map(|((requests, task), alone)| {
        let requests = requests.as_ref()?;
        let basic = basic(requests, alone, time);
        Some(json!({ "clientName": task.id, "analyzers": [basic] }))
    });
    json!({
        "beginTime": at(run.begun),
        "endTime": at(run.begun + time),
        "benchmarkTime(s)": time.as_secs(),
        "results": results.collect::<Vec<_>>(),
    })
}

fn basic(requests: &Requests, alone: &Phases, time: Duration) -> Value {
    let (mean, alone) = (requests.mean(), us(alone.total()));
    let total = us(mean.total());
    let mut keys = Map::new();
    let mut put = |key: &str, value: Value| keys.insert(key.into(), value);
    put("type", "basic".into());
    put("avgThroughput(req/s)", (requests.latency.len() as f64 / time.as_secs_f64()).into());
    put("standAloneTotalLatency(us)", alone.into());
    put("avgPrepareInputLatency(us)", 0.into());
    put("avgPreprocessLatency(us)", us(mean.preprocess).into());
    put("avgCopyInputLatency(us)", 0.into());
    put("avgInferLatency(us)", us(mean.infer).into());
    put("avgCopyOutputLatency(us)", 0.into());
    put("avgPostprocessLatency(us)", us(mean.postprocess).into());
    put("avgTotalLatency(us)", total.into());
    put("avgTotalLatencyIncrease(us)", (total as i64 - alone as i64).into());
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let key = format!("{name}TotalLatency(us)");
        put(&key, (micros(&requests.latency, quantile) as u64).into());
    }
    if let Some(p999) = p999_millis(&requests.latency) {
        put("p99.9TotalLatency(us)", ((p999 * 1e3) as u64).into());
    }
    put("skippedLaunches", requests.skipped.into());
    put("unfinishedRequests", requests.unfinished.into());
    Value::Object(keys)
}

/// Hardware queue lengths of best-effort tasks that are launches, and of those that are graphs.
fn windows(asked: Option<u64>) -> [u64; 2] {
    asked.map_or([Config::default().window, Config::GRAPHS], |window| [window; 2])
}

/// Results so far.
pub(crate) fn results<'a>(args: &Args, facts: Value, rows: &'a [Row]) -> Results<'a, Row> {
    let mut all = json!({
        "file": args.file.display().to_string(),
        "seed": args.common.seed,
        "windows": (!args.daemon).then(|| windows(args.window)),
        "warm_ups": args.warm_ups,
        "alone": args.alone,
    });
    if let (Value::Object(all), Value::Object(facts)) = (&mut all, facts) {
        all.extend(facts);
    }
    Results { bench: "disb", facts: all, columns: &COLUMNS, rows }
}

/// Writes a run's report in DISB's form: `SCHEDULER.WORKLOAD.json`, as DISB's converter wants it.
pub(crate) fn save_disb(out: &Path, workload: &str, run: &Run, report: &Value) -> Result<()> {
    let file = out.join(format!("{}.{workload}.json", run.policy.replace([' ', '(', ')'], "")));
    let text = serde_json::to_string_pretty(report)? + "\n";
    save(&file, text)
}

/// Writes the files, prints the table: classes if there are several schedulers, else clients too.
pub(crate) fn show(
    args: &Args,
    place: &BenchTarget,
    facts: Value,
    rows: &[Row],
    aliases: &str,
) -> Result<()> {
    let results = results(args, facts, rows);
    let plot = results.save_at(&args.common, place)?;
    if let Some(plot) = &plot {
        draw(plot, args, rows).with_context(|| plot.display().to_string())?;
    }
    if args.common.json {
        return print(serde_json::to_string_pretty(&results.json_at(&args.common, place))?);
    }
    print(&place.title)?;
    print(format_args!("{}: {aliases}", args.file.display()))?;
    let several = rows.iter().any(|row| row.policy != rows[0].policy);
    let shown = rows.iter().filter(|row| row.all || !several);
    print(as_table(&COLUMNS, shown))?;
    print(LEGEND)?;
    print_files(plot.as_deref())
}

/// A point for each scheduler; the best are low and to the right.
fn draw(path: &Path, args: &Args, rows: &[Row]) -> Result<()> {
    let class = |real_time| rows.iter().filter(move |row| row.all && row.real_time == real_time);
    let point = |rt: &Row| {
        let be = class(false).find(|be| be.policy == rt.policy);
        let kept = be.map_or(Some(0.0), Row::kept_percent)?;
        Some((kept, rt.over_alone()?, rt.policy.clone()))
    };
    let group = |row: &Row| {
        let points = point(row).into_iter().collect::<Vec<_>>();
        (!points.is_empty()).then(|| chart::Group { name: row.policy.clone(), points })
    };
    let groups: Vec<_> = class(true).filter_map(group).collect();
    if groups.is_empty() {
        return Ok(());
    }
    let caption = args.file.display().to_string();
    chart::points(path, &caption, ["BE kept, %", "RT mean ÷ alone"], &groups)
}
