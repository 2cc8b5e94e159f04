//! Best-effort clients of networks.

use anyhow::Result;
use reef::models::Network;
use reef::op::Operators;
use reef::{BestEffort, ClientConfig, Device, Dispatcher, Seq};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs inferences back to back until told to stop; returns how many per second.
pub(crate) fn closed_loop<D: Operators>(
    dispatcher: &Dispatcher<D>,
    config: ClientConfig,
    network: &Network<D>,
    stop: &AtomicBool,
) -> Result<f64> {
    let mut client = dispatcher.best_effort(config)?;
    let commands = network.inference();
    let begin = Instant::now();
    while !stop.load(Ordering::Acquire) {
        let last = client.submit(&commands)?;
        if !wait_or_stop(&client, last, stop)? {
            break;
        }
    }
    let done = client.submitter().completed().0 as f64 / commands.len() as f64;
    Ok(done / begin.elapsed().as_secs_f64())
}

/// Waits for `last`, but not for longer than the measurement: under some schedulers it never comes.
fn wait_or_stop<D: Device>(client: &BestEffort<D>, last: Seq, stop: &AtomicBool) -> Result<bool> {
    while !client.wait_for(last, Duration::from_millis(20))? {
        if stop.load(Ordering::Acquire) {
            return Ok(false);
        }
    }
    Ok(true)
}
