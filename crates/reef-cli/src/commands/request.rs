//! `reef request`: one process that runs one model on a daemon.

use crate::report::class::ClassName;
use crate::report::output::print;
use crate::report::table::{micros, millis, p999_millis};
use crate::report::time;
use crate::report::usage::Usage;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use reef::models::Seeded;
use reef::models::image::Transform;
use reef_serve::{Class, Client, Error, Options, Rate};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a signal is polled.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Run a model on a daemon and print the time of each inference, and p50 and p99 of all.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model; the daemon loads it if it is not loaded.
    model: String,
    /// Class of the requests.
    #[arg(long, value_enum, default_value = "be")]
    class: ClassName,
    /// Reserve this much device time in each period, such as 2ms. If it cannot be admitted, the
    /// daemon's rt.unfit decides.
    #[arg(long, value_name = "TIME", value_parser = time::parse, requires = "period")]
    budget: Option<Duration>,
    /// Period of the reservation, such as 20ms.
    #[arg(long, value_name = "TIME", value_parser = time::parse, requires = "budget")]
    period: Option<Duration>,
    /// Repeat until interrupted (Ctrl-C), which prints p50 and p99.
    #[arg(long)]
    continuous: bool,
    /// Number of inferences.
    #[arg(
        long,
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "continuous"
    )]
    requests: u64,
    /// Time to sleep after each inference, such as 5ms.
    #[arg(long, value_name = "TIME", value_parser = time::parse, default_value = "0")]
    sleep: Duration,
    /// Folder of the daemon's sockets [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[arg(long = "socket-dir", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Photo (JPEG or PNG) to run the model on.
    #[arg(long)]
    image: Option<PathBuf>,
    /// Longest time of a request, such as 500ms.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    timeout: Option<Duration>,
    /// Time to poll for an answer before sleeping.
    #[arg(long, value_name = "TIME", value_parser = time::parse, default_value = "50us")]
    spin: Duration,
    /// Wait for another daemon when this one ends.
    #[arg(long)]
    reconnect: bool,
    /// Measure this many round trips without an inference.
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["continuous", "requests", "sleep", "image", "reconnect"]
    )]
    empty: Option<u64>,
    /// Print JSON, a line for each inference; with --empty, one for all round trips.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let class = match args.class {
        ClassName::Rt => Class::RealTime,
        ClassName::Be => Class::BestEffort,
    };
    if args.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(Usage("--timeout must be greater than 0, got 0".into()).into());
    }
    let options = Options {
        folder: args.folder.clone(),
        class: Some(class),
        rate: rate(args)?,
        spin: args.spin,
        timeout: args.timeout,
    };
    if !args.json {
        note!("loading {}", args.model);
    }
    let mut client = Client::connect(&args.model, &options)?;
    if let Some(rate) = options.rate.filter(|_| !client.has_budget()) {
        let class = client.class();
        note!("reef: a budget of {rate} doesn't fit; served without, as {class}");
    }
    match args.empty {
        Some(count) => empty(args, &mut client, count),
        None => inferences(args, &mut client),
    }
}

fn rate(args: &Args) -> Result<Option<Rate>> {
    let (Some(period), Some(budget)) = (args.period, args.budget) else { return Ok(None) };
    if matches!(args.class, ClassName::Be) {
        return Err(Usage("--budget needs --class rt".into()).into());
    }
    Rate::new(period, budget).map(Some).map_err(|e| Usage(format!("--budget: {e}")).into())
}

fn inferences(args: &Args, client: &mut Client) -> Result<()> {
    let mut times = Histogram::<u64>::new(3)?;
    let ended = infer_all(args, client, &mut times);
    if !args.json && times.len() > 1 {
        print(summary(&times))?;
    }
    ended
}

/// Runs all inferences, or those until a signal or an error, and notes the time of each.
fn infer_all(args: &Args, client: &mut Client, times: &mut Histogram<u64>) -> Result<()> {
    let input = input(args, client)?;
    let mut output = vec![0.0; client.output_len()];
    let told = until_interrupted()?;
    while !told.load(Ordering::Relaxed) && (args.continuous || times.len() < args.requests) {
        let begin = Instant::now();
        match client.infer_into(&input, &mut output) {
            Ok(timing) => {
                let latency = begin.elapsed();
                times.record(latency.as_nanos() as u64)?;
                report(args, client, latency, timing)?;
            }
            Err(Error::Unavailable(why)) if args.reconnect => reconnect(client, &why, &told),
            Err(error) => return Err(error.into()),
        }
        sleep(args.sleep, &told);
    }
    Ok(())
}

/// Returns a flag that the first SIGINT or SIGTERM sets. A second one ends the process, so that no
/// request is waited for that never ends.
fn until_interrupted() -> Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let ends = flag::register_conditional_default(signal, told.clone());
        ends.and_then(|_| flag::register(signal, told.clone())).context("signals")?;
    }
    Ok(told)
}

/// Sleeps, in short steps that a signal ends.
fn sleep(time: Duration, told: &AtomicBool) {
    let end = Instant::now() + time;
    while !told.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(SIGNAL_INTERVAL));
    }
}

/// Quantiles of all inferences.
fn summary(times: &Histogram<u64>) -> String {
    let [p50, p99] = [0.5, 0.99].map(|quantile| millis(times, quantile));
    format!("{} inferences: p50 {p50:.3} ms, p99 {p99:.3} ms", times.len())
}

fn input(args: &Args, client: &Client) -> Result<Vec<f32>> {
    let Some(photo) = &args.image else { return Ok(Seeded(2022).input(client.input_len())) };
    let size = (client.input_len() / 3).isqrt();
    if 3 * size * size != client.input_len() {
        let values = client.input_len();
        return Err(Usage(format!("--image: the input has {values} values, no image")).into());
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
    print(format_args!("client {}: {:.3} ms", client.id(), millis(latency)))
}

/// Prints a measurement with the client, its model and its class.
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

/// Tries until there is a daemon again, or a signal.
fn reconnect(client: &mut Client, why: &str, told: &AtomicBool) {
    note!("reef: {why}; connecting anew");
    while !told.load(Ordering::Relaxed) && client.reconnect().is_err() {
        thread::sleep(SIGNAL_INTERVAL);
    }
}

/// Times round trips that do nothing.
fn empty(args: &Args, client: &mut Client, count: u64) -> Result<()> {
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..count.div_ceil(10) {
        client.ping()?; // until both sides poll
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
