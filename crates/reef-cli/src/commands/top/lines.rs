//! A line for each interval.

use super::view::View;
use super::watch::Watch;
use crate::report::output::print;
use anyhow::Result;
use std::thread;
use std::time::{Duration, Instant};

/// A line for each interval. Without a daemon it waits for one and says so on stderr. With a
/// `count` it does not wait, as nothing would end it.
///
/// # Errors
///
/// The daemon refuses, or there is none.
pub(crate) fn lines(
    mut watch: Watch,
    interval: Duration,
    count: Option<u64>,
    json: bool,
) -> Result<()> {
    let (mut done, mut next, mut is_gone) = (0, Instant::now(), false);
    while count.is_none_or(|count| done < count) {
        match watch.poll() {
            Ok(view) => {
                is_gone = false;
                if let Some(view) = view {
                    line(&view, json)?;
                    done += 1;
                }
            }
            Err(error) if error.is_gone() && count.is_none() => {
                if !is_gone {
                    note!("reef: {error}; waiting for a daemon");
                }
                is_gone = true;
            }
            Err(error) => return Err(error.into()),
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
        "{} RT {:.1}/s BE {:.1}/s failed {:.1}/s queued {} connections {} preempted {:.1}/s RT start p50 {} p99 {} µs",
        view.date,
        view.rt_per_second,
        view.be_per_second,
        view.failed_per_second,
        view.queued,
        view.connections,
        view.preemptions_per_second,
        micros(view.rt_start_p50_us),
        micros(view.rt_start_p99_us),
    ))
}
