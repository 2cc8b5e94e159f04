//! A screen on a terminal, lines elsewhere.

use super::args::Args;
use super::lines::lines;
use super::live;
use super::watch::Watch;
use crate::report::usage::Usage;
use anyhow::Result;
use std::io::IsTerminal;
use std::time::Duration;

pub(crate) fn run(args: &Args) -> Result<()> {
    if !(0.01..=3600.0).contains(&args.interval) {
        let interval = args.interval;
        return Err(Usage(format!("--interval must be in 0.01..=3600, got {interval}")).into());
    }
    let interval = Duration::from_secs_f64(args.interval);
    let watch = Watch::new(args.place.daemon()?);
    if args.json || args.count.is_some() || !std::io::stdout().is_terminal() {
        return lines(watch, interval, args.count, args.json);
    }
    live::run(watch, interval)
}
