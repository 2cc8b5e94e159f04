//! A screen on a terminal, lines elsewhere.

use super::lines::lines;
use super::live;
use super::watch::Watch;
use crate::remote::daemon::DaemonAddress;
use crate::report::time;
use crate::report::usage::Usage;
use anyhow::Result;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// Shortest and longest time from one poll to the next.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MAX_INTERVAL: Duration = Duration::from_secs(3600);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: DaemonAddress,
    /// Time from one poll to the next, such as 200ms.
    #[arg(long, value_parser = time::parse, default_value = "1s")]
    pub(crate) interval: Duration,
    /// End after this many intervals, or at once without a daemon; print lines, on a terminal too.
    #[arg(long)]
    pub(crate) count: Option<u64>,
    /// Print JSON, an object for each interval.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let interval = args.interval;
    if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) {
        let [min, max, got] = [MIN_INTERVAL, MAX_INTERVAL, interval].map(time::show);
        return Err(Usage(format!("--interval must be from {min} to {max}, got {got}")).into());
    }
    let folder = args.place.may_be_local().then(|| args.place.folder().map(Path::to_path_buf));
    let watch = Watch::new(args.place.daemon()?, folder);
    if args.json || args.count.is_some() || !is_screen() {
        return lines(watch, interval, args.count, args.json);
    }
    live::run(watch, interval)
}

/// Returns whether the output is a terminal that can be drawn on.
fn is_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_dumb
}
