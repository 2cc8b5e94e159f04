//! `reef ctl trace`: a record of the blocks on a daemon's device, for Perfetto.

use crate::remote::daemon::{DaemonAddress, Error};
use crate::report::checks::check_file;
use crate::report::output::{print, save};
use crate::report::progress::Progress;
use crate::report::time;
use anyhow::{Context, Result, bail};
use hyper::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::PathBuf;
use std::time::Duration;

/// Longest time of an answer, on top of the traced time.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most time: a trace has an entry for each block.
const MAX_TIME: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: DaemonAddress,
    /// Time to trace, such as 500ms.
    #[arg(long, value_parser = time::parse, default_value = "1s")]
    time: Duration,
    /// File to write, for ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE", default_value = "trace.json")]
    out: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Part of a trace that is read here. The rest is for the viewer.
#[derive(Deserialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<IgnoredAny>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (out, seconds) = (&args.out, args.time.as_secs_f64());
    time::check("--time", args.time, MAX_TIME)?;
    check_file(out)?;
    let daemon = args.place.daemon()?;
    let progress = Progress::new(1, args.json);
    progress.begin(&format!("tracing {} for {}", daemon.name(), time::show(args.time)));
    let path = format!("/reef/trace?seconds={seconds}");
    let text = match daemon.get(&path, args.time + TIMEOUT) {
        Err(Error::Refused(StatusCode::NOT_FOUND, _)) => {
            bail!("{}: the daemon gives no traces (it has no /reef/trace)", daemon.name())
        }
        answer => answer?,
    };
    progress.finish();
    let trace: Trace = serde_json::from_slice(&text)
        .with_context(|| format!("{}: the answer is not a trace", daemon.name()))?;
    save(out, &text)?;
    let events = trace.events.len();
    if args.json {
        let bytes = text.len();
        return print(serde_json::json!({
            "file": out.display().to_string(), "seconds": seconds, "events": events, "bytes": bytes,
        }));
    }
    print(format_args!("{}: {events} events; open it in ui.perfetto.dev", out.display()))
}
