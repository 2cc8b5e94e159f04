//! `reef client`: one process that runs one model on a daemon, as REEF's own examples do.

use crate::report::output::print;
use crate::report::table::{micros, millis, p999_millis};
use crate::report::usage::Usage;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use reef::models::Seeded;
use reef::models::picture::Transform;
use reef_serve::{Class, Client, Error, Options, Rate};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Runs a model on a daemon and prints how long each inference takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model; the daemon loads it if it is not loaded.
    #[arg(long)]
    model: String,
    /// Real-time requests; else they are best-effort.
    #[arg(long)]
    rt: bool,
    /// Microseconds of device time that it needs in each period: as much is its own if it fits, or else rt.unfit of the
    /// daemon says what becomes of it.
    #[arg(long, requires_all = ["period_us", "rt"])]
    budget_us: Option<u64>,
    /// That period in microseconds.
    #[arg(long, requires = "budget_us")]
    period_us: Option<u64>,
    /// Goes on until it is ended.
    #[arg(long)]
    continuous: bool,
    /// How many inferences.
    #[arg(long, default_value_t = 1, conflicts_with = "continuous")]
    requests: u64,
    /// Milliseconds of rest after each inference.
    #[arg(long, default_value_t = 0)]
    sleep_ms: u64,
    /// Folder of the daemon's sockets [default: $XDG_RUNTIME_DIR/reef].
    #[arg(long)]
    folder: Option<PathBuf>,
    /// A photo (JPEG or PNG) that the model looks at.
    #[arg(long)]
    image: Option<PathBuf>,
    /// Longest time of a request in milliseconds.
    #[arg(long)]
    timeout_ms: Option<u64>,
    /// Microseconds that it looks for an answer before it sleeps.
    #[arg(long, default_value_t = 50)]
    spin_us: u64,
    /// Waits for another daemon when this one ends.
    #[arg(long)]
    reconnect: bool,
    /// Measures this many round trips without an inference.
    #[arg(long, value_name = "COUNT")]
    empty: Option<u64>,
    /// Prints JSON, a line for each inference; with --empty, one for all round trips.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let options = Options {
        folder: args.folder.clone(),
        class: Some(if args.rt { Class::RealTime } else { Class::BestEffort }),
        rate: rate(args)?,
        spin: Duration::from_micros(args.spin_us),
        timeout: args.timeout_ms.map(Duration::from_millis),
    };
    if !args.json {
        print(format_args!("loading '{}'", args.model))?;
    }
    let mut client = Client::connect(&args.model, &options)?;
    if let Some(rate) = options.rate.filter(|_| !client.has_budget()) {
        let class = client.class();
        eprintln!("reef: a budget of {rate} doesn't fit; served without, as {class}");
    }
    match args.empty {
        Some(count) => empty(args, &mut client, count),
        None => inferences(args, &mut client),
    }
}

fn rate(args: &Args) -> Result<Option<Rate>> {
    let (Some(period), Some(budget)) = (args.period_us, args.budget_us) else { return Ok(None) };
    let micros = Duration::from_micros;
    let rate = Rate::new(micros(period), micros(budget));
    rate.map(Some).map_err(|e| Usage(format!("--budget-us: {e}")).into())
}

fn inferences(args: &Args, client: &mut Client) -> Result<()> {
    let input = input(args, client)?;
    let mut output = vec![0.0; client.output_len()];
    if !args.json {
        let many = if args.continuous || args.requests > 1 { "s" } else { "" };
        print(format_args!("submit inference request{many}"))?;
    }
    let mut done = 0;
    while args.continuous || done < args.requests {
        let begin = Instant::now();
        match client.infer_into(&input, &mut output) {
            Ok(timing) => {
                report(args, client, begin.elapsed(), timing)?;
                done += 1;
            }
            Err(Error::Unavailable(why)) if args.reconnect => reconnect(client, &why),
            Err(error) => return Err(error.into()),
        }
        thread::sleep(Duration::from_millis(args.sleep_ms));
    }
    Ok(())
}

fn input(args: &Args, client: &Client) -> Result<Vec<f32>> {
    let Some(photo) = &args.image else { return Ok(Seeded(2022).input(client.input_len())) };
    let size = (client.input_len() / 3).isqrt();
    if 3 * size * size != client.input_len() {
        let values = client.input_len();
        return Err(Usage(format!("--image: the input has {values} values, no picture")).into());
    }
    Transform::of(&args.model, size).read(photo).context("--image")
}

fn report(
    args: &Args,
    client: &Client,
    latency: Duration,
    timing: reef_serve::Timing,
) -> Result<()> {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    if args.json {
        return print_of(
            args,
            client,
            json!({
                "latency_ms": millis(latency),
                "infer_ms": millis(timing.infer),
                "delay_ms": millis(timing.delay),
            }),
        );
    }
    print(format_args!("client {} inference latency: {:.3} ms", client.id(), millis(latency)))
}

/// Prints who measured it, and what.
fn print_of(args: &Args, client: &Client, measured: Value) -> Result<()> {
    let mut line = json!({
        "client": client.id(),
        "model": args.model,
        "class": client.class().name(),
    });
    if let (Value::Object(line), Value::Object(measured)) = (&mut line, measured) {
        line.extend(measured);
    }
    print(line)
}

/// Tries until there is a daemon again.
fn reconnect(client: &mut Client, why: &str) {
    eprintln!("reef: {why}; connecting anew");
    while client.reconnect().is_err() {
        thread::sleep(Duration::from_millis(100));
    }
}

/// Times round trips that do nothing.
fn empty(args: &Args, client: &mut Client, count: u64) -> Result<()> {
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..count.div_ceil(10) {
        client.ping()?; // until both sides look for news
    }
    for _ in 0..count {
        let begin = Instant::now();
        client.ping()?;
        times.record(begin.elapsed().as_nanos() as u64)?;
    }
    if args.json {
        let at = |quantile| millis(&times, quantile);
        return print_of(
            args,
            client,
            json!({
                "round_trips": count,
                "latency_p50_ms": at(0.5),
                "latency_p90_ms": at(0.9),
                "latency_p99_ms": at(0.99),
                "latency_p999_ms": p999_millis(&times),
            }),
        );
    }
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|quantile| micros(&times, quantile));
    let p999 = p999_millis(&times).map_or(String::new(), |ms| format!(", p99.9 {:.2}", ms * 1e3));
    print(format_args!(
        "{count} empty round trips: p50 {p50:.2}, p90 {p90:.2}, p99 {p99:.2}{p999} µs"
    ))
}
