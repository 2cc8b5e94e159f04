//! `reef simulate`: a fleet of devices under schedulers and placements.

use crate::report::output::print;
use crate::report::table::table;
use crate::report::time;
use crate::report::usage::Usage;
use anyhow::Result;
use reef_simulate::{Fleet, Options, Placement, Totals};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// File of devices, clients and measured profiles, as docs/simulate.md describes it.
    fleet: PathBuf,
    /// Schedulers to simulate, one after the other.
    #[arg(
        long = "schedulers",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "reef,streams"
    )]
    scheduler: Vec<String>,
    /// Placements of clients: spread, pack, rt-apart, least-interference.
    #[arg(
        long = "placements",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "rt-apart"
    )]
    placement: Vec<String>,
    /// Numbers of GPUs to simulate in place of the file's, one after the other.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    gpus: Vec<u32>,
    /// Simulated time, such as 60s or 10min.
    #[arg(long, value_parser = time::parse, default_value = "60s")]
    time: Duration,
    /// Seed of all random numbers; the same seed gives the same result.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of threads; the result does not depend on it.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One scheduler with one placement.
struct Row {
    options: Options,
    placement: String,
    /// Devices that there are.
    gpus: usize,
    totals: Totals,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut fleet = Fleet::read(&args.fleet).map_err(usage)?;
    let mut rows = Vec::new();
    for gpus in sizes(&args.gpus) {
        if let Some(gpus) = gpus {
            (fleet.nodes, fleet.gpus_per_node) = (1, gpus);
        }
        add_rows(&fleet, args, &mut rows)?;
    }
    if args.json {
        let rows: Vec<Value> = rows.iter().map(in_json).collect();
        return print(serde_json::to_string_pretty(&rows)?);
    }
    show(args, &rows)
}

/// Numbers of GPUs; none: the file's.
fn sizes(gpus: &[u32]) -> Vec<Option<u32>> {
    if gpus.is_empty() { vec![None] } else { gpus.iter().copied().map(Some).collect() }
}

fn add_rows(fleet: &Fleet, args: &Args, rows: &mut Vec<Row>) -> Result<()> {
    for placement in &args.placement {
        for scheduler in &args.scheduler {
            rows.push(simulate(fleet, args, placement, scheduler)?);
        }
    }
    Ok(())
}

/// Errors come from the command line or a file alone.
fn usage(error: reef_simulate::Error) -> Usage {
    Usage(error.to_string())
}

fn simulate(fleet: &Fleet, args: &Args, name: &str, scheduler: &str) -> Result<Row> {
    let placement = Placement::by_name(name).ok_or_else(|| {
        let names = Placement::ALL.map(|(name, _)| name);
        let (have, meant) = (names.join(", "), reef::did_you_mean(name, names));
        Usage(format!("no placement {name:?} (have: {have}){meant}"))
    })?;
    let (seconds, seed, threads) = (args.time.as_secs_f64(), args.seed, args.threads);
    let options = Options { scheduler: scheduler.into(), placement, seconds, seed, threads };
    let totals = reef_simulate::simulate(fleet, &options).map_err(usage)?;
    Ok(Row { options, placement: name.into(), gpus: fleet.devices(), totals })
}

impl Row {
    fn gpu_hours(&self) -> f64 {
        self.totals.devices_used as f64 * self.options.seconds / 3600.0
    }

    fn be_per_second(&self) -> f64 {
        self.totals.be_finished as f64 / self.options.seconds
    }
}

fn in_json(row: &Row) -> Value {
    let (totals, options) = (&row.totals, &row.options);
    json!({
        "scheduler": options.scheduler,
        "placement": row.placement,
        "gpus": row.gpus,
        "seconds": options.seconds,
        "seed": options.seed,
        "rt_arrivals": totals.rt_arrivals,
        "rt_finished": totals.rt_in_time + totals.rt_late,
        "rt_left": totals.rt_left,
        "rt_misses": totals.misses(),
        "rt_mean_ms": totals.rt_mean_ms(),
        "rt_p50_ms": totals.rt_quantile_ms(0.5),
        "rt_p99_ms": totals.rt_quantile_ms(0.99),
        "be_finished": totals.be_finished,
        "be_per_second": row.be_per_second(),
        "be_kept_percent": totals.be_kept() * 100.0,
        "preemptions": totals.preemptions,
        "gpus_used": totals.devices_used,
        "gpu_hours": row.gpu_hours(),
        "busy_gpu_hours": totals.busy as f64 / 3.6e12,
    })
}

fn show(args: &Args, rows: &[Row]) -> Result<()> {
    let mut sizes: Vec<String> = rows.iter().map(|row| row.gpus.to_string()).collect();
    sizes.dedup();
    let (devices, time, seed) = (sizes.join(", "), time::show(args.time), args.seed);
    print(format_args!("{devices} GPUs for {time}, seed {seed}: simulated\n"))?;
    let mut table = table(&[
        "placement",
        "scheduler",
        "RT p50 ms",
        "p99",
        "requests",
        "missed %",
        "BE /s",
        "kept %",
        "GPUs used",
        "of",
        "GPU hours",
        "busy",
    ]);
    for row in rows {
        table.add_row(cells(row));
    }
    print(table)
}

fn cells(row: &Row) -> [String; 12] {
    let totals = &row.totals;
    let missed = totals.misses() as f64 / totals.rt_arrivals.max(1) as f64 * 100.0;
    [
        row.placement.clone(),
        row.options.scheduler.clone(),
        format!("{:.3}", totals.rt_quantile_ms(0.5)),
        format!("{:.3}", totals.rt_quantile_ms(0.99)),
        totals.rt_arrivals.to_string(),
        format!("{missed:.2}"),
        format!("{:.0}", row.be_per_second()),
        format!("{:.1}", totals.be_kept() * 100.0),
        totals.devices_used.to_string(),
        row.gpus.to_string(),
        format!("{:.2}", row.gpu_hours()),
        format!("{:.2}", totals.busy as f64 / 3.6e12),
    ]
}
