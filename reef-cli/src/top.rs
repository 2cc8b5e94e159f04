//! `reef top`: what a daemon does, again and again.
//!
//! On a terminal it is a screen; elsewhere, or with `--json`, each interval gives a line. When the daemon
//! goes, that is said, and it is waited for.

mod live;
mod screen;
mod view;

use crate::daemon::{Daemon, Error, Place};
use crate::scrape::Scrape;
use crate::{Usage, print};
use anyhow::Result;
use std::io::IsTerminal;
use std::thread;
use std::time::{Duration, Instant};
use view::{Between, View};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Seconds from one look to the next.
    #[arg(long, default_value_t = 1.0)]
    interval: f64,
    /// Ends after so many intervals; prints lines, on a terminal too.
    #[arg(long)]
    count: Option<u64>,
    /// Prints JSON, an object for each interval.
    #[arg(long)]
    json: bool,
}

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

/// Looks at a daemon now and then.
struct Watch {
    daemon: Daemon,
    last: Option<(Instant, Scrape)>,
}

impl Watch {
    fn new(daemon: Daemon) -> Self {
        Self { daemon, last: None }
    }

    /// What happened since the last look; `None` if this is the first one.
    ///
    /// # Errors
    ///
    /// The daemon's; after that the next look is the first one.
    fn look(&mut self) -> Result<Option<View>, Error> {
        let before = self.last.take();
        let text = self.daemon.get("/metrics", PATIENCE)?;
        let (now, after) = (Instant::now(), Scrape::parse(&String::from_utf8_lossy(&text)));
        let view = before.map(|(then, before)| {
            Between { before: &before, after: &after, time: now - then }.view()
        });
        self.last = Some((now, after));
        Ok(view)
    }
}

/// A line for each interval; on stderr when the daemon goes.
fn lines(mut watch: Watch, interval: Duration, count: Option<u64>, json: bool) -> Result<()> {
    let (mut done, mut next, mut is_gone) = (0, Instant::now(), false);
    while count.is_none_or(|count| done < count) {
        match watch.look() {
            Ok(view) => {
                is_gone = false;
                if let Some(view) = view {
                    line(&view, json)?;
                    done += 1;
                }
            }
            Err(Error::Gone(why)) => {
                if !is_gone {
                    eprintln!("reef: {why}; waiting for a daemon");
                }
                is_gone = true;
            }
            Err(refused) => return Err(refused.into()),
        }
        if count.is_none_or(|count| done < count) {
            next = (next + interval).max(Instant::now());
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    Ok(())
}

fn line(view: &View, json: bool) -> Result<()> {
    if json {
        return print(serde_json::to_string(view)?);
    }
    let micros = |time: Option<f64>| time.map_or("–".into(), |time| format!("{time:.1}"));
    print(format_args!(
        "{} RT {:.1}/s BE {:.1}/s failed {:.1}/s queued {} clients {} preempted {:.1}/s RT start p50 {} p99 {} µs",
        view.date,
        view.rt_per_second,
        view.be_per_second,
        view.failed_per_second,
        view.queued,
        view.clients,
        view.preemptions_per_second,
        micros(view.rt_start_p50_us),
        micros(view.rt_start_p99_us),
    ))
}
