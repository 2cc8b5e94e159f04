//! Time of preempt and restore, without real-time work in between.

use super::load::{Feeder, Load};
use super::pace::Limits;
use crate::workload::clock::wait_awake;
use crate::workload::clock::{histogram, note};
use anyhow::Result;
use hdrhistogram::Histogram;
use reef::op::Operators;
use reef::{Group, queue::Config};
use std::time::Instant;

/// Preemptions that are enough: they cost more time than requests.
const MAX_SAMPLES: usize = 300;

/// Times in nanoseconds.
pub(crate) struct PreemptRestore {
    /// Time from the call that preempts until the device has confirmed that nothing of the queue
    /// runs.
    pub(crate) quiesced: Histogram<u64>,
    /// Time from the call that restores until the client sees the first command completed: what was
    /// left of it had to run meanwhile.
    pub(crate) resumed: Histogram<u64>,
    /// Each task was done once.
    pub(crate) right: bool,
}

/// Preempts and restores a queue of its own that is kept full.
pub(crate) fn preempt_restore<D: Operators>(
    device: &D,
    load: &Load<D>,
    config: Config,
    queued: u64,
    limits: &Limits,
) -> Result<PreemptRestore> {
    let group = Group::open(device, config.level)?;
    let (mut submitter, queue) = group.enable(config)?;
    let mut feeder = Feeder::new(load, queued)?;
    let (mut quiesced, mut resumed) = (histogram(), histogram());
    let begin = Instant::now();
    for pause in limits.pauses().take(limits.samples.min(MAX_SAMPLES)) {
        feeder.keep_full(&mut submitter, pause)?;
        let now = device.clock();
        group.preempt(true)?;
        note(&mut quiesced, device.clock() - now);
        let next = submitter.completed();
        let now = device.clock();
        group.restore()?;
        if next < submitter.submitted() {
            wait_awake(&submitter, next)?;
            note(&mut resumed, device.clock() - now);
        }
        if begin.elapsed() > limits.time {
            break;
        }
    }
    let (_, right) = feeder.finish(&submitter)?;
    queue.finish()?;
    Ok(PreemptRestore { quiesced, resumed, right })
}
