//! Best-effort clients of networks.

use anyhow::Result;
use reef::{BeClient, ClientConfig, Command, Device, Dispatcher, Seq};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Launches that a best-effort network hands over at once, where the device has graphs: few,
/// because what was launched when it is preempted comes to nothing kernel by kernel.
pub(crate) const BE_GRAPH: usize = 8;

/// Runs the commands of an inference back to back until told to stop; returns how often per second.
pub(crate) fn closed_loop<D: Device>(
    dispatcher: &Dispatcher<D>,
    config: ClientConfig,
    commands: &[Command<D>],
    stop: &AtomicBool,
) -> Result<f64> {
    let mut client = dispatcher.best_effort(config)?;
    let begin = Instant::now();
    while !stop.load(Ordering::Acquire) {
        let last = client.submit(commands)?;
        if !wait_or_stop(&client, last, stop)? {
            break;
        }
    }
    let done = client.submitter().completed().0 as f64 / commands.len() as f64;
    Ok(done / begin.elapsed().as_secs_f64())
}

/// Waits for `last`, but not for longer than the measurement: under some schedulers it never comes.
pub(crate) fn wait_or_stop<D: Device>(
    client: &BeClient<D>,
    last: Seq,
    stop: &AtomicBool,
) -> Result<bool> {
    while client.wait_timeout(last, Duration::from_millis(20)).transpose()?.is_none() {
        if stop.load(Ordering::Acquire) {
            return Ok(false);
        }
    }
    Ok(true)
}
