//! Best-effort work is slowed down by real-time work, and never starved.

use crate::run::skip;
use crate::subject::{Cells, Rounds, event_timeout, happened, rounds_for};
use reef_core::{Config, Device, PreemptLevel, VirtualQueue};
use std::time::{Duration, Instant};

/// A kernel is preempted when it has run for this long.
const PERIOD: Duration = Duration::from_millis(2);
/// Time of an undisturbed kernel: a crowded host is late by some periods.
const KERNEL: Duration = Duration::from_millis(40);
/// Kernels that must have been stopped twice.
const MIN_STOPPED_TWICE: u64 = 3;

/// Kernels of one wave that take longer than the time from one preemption to the next end
/// nevertheless, and what they were stopped midway is not run twice.
pub fn a_kernel_longer_than_the_real_time_period_ends<D: Device>(device: &D, level: PreemptLevel) {
    if level < PreemptLevel::All {
        return skip(&format!("{} stops nothing that runs at level {level}", D::NAME));
    }
    let cells = Cells::new(device, 2);
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    let spin = rounds_for(device, KERNEL);
    let (mut kernel, mut twice) = (0, 0);
    let mut rounds = Rounds::new(MIN_STOPPED_TWICE);
    while rounds.next(twice, MIN_STOPPED_TWICE) {
        let reruns = queue.rerun();
        let seq = submitter.submit_blocking(cells.append(kernel, spin)).unwrap();
        let (mut preemptions, start) = (0, Instant::now());
        loop {
            std::thread::sleep(PERIOD); // sleep: pace of the preemptions
            queue.preempt(true).unwrap();
            if submitter.completed() > seq {
                break;
            }
            preemptions += 1;
            // Not a number of preemptions: a crowded host may make any before blocks have started.
            let is_starved = start.elapsed() > event_timeout();
            assert!(!is_starved, "kernel {kernel} is starved by {preemptions} preemptions");
            queue.restore().unwrap();
        }
        queue.restore().unwrap();
        // A preemption that comes before the launch stops nothing.
        twice += u64::from(queue.rerun() - reruns >= 2);
        kernel += 1;
    }
    happened("kernels were stopped twice", twice, MIN_STOPPED_TWICE);
    queue.finish().unwrap();
    cells.expect(0..kernel);
}
