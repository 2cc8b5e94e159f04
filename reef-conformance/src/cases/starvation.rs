//! Best-effort work is slowed down by real-time work, and never starved.

use crate::subject::Cells;
use reef_core::{Config, Device, PreemptLevel, Submitter, VirtualQueue, appended};
use std::time::{Duration, Instant};

/// A kernel is preempted when it has run for this long.
const PERIOD: Duration = Duration::from_millis(2);
/// A kernel takes at least this many periods if it is left alone.
const PERIODS: u32 = 5;
/// Preemptions after which a kernel that is stopped twice at most has ended; a crowded host may preempt it
/// before its blocks have started.
const MAX_PREEMPTIONS: u64 = 20;

/// Kernels of one wave that take longer than the time from one preemption to the next end nevertheless, and what
/// they were stopped midway is not run twice.
pub fn a_kernel_longer_than_the_real_time_period_ends<D: Device>(device: &D, level: PreemptLevel) {
    if level < PreemptLevel::All {
        return; // what runs is not stopped there
    }
    let cells = Cells::new(device, 2);
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
    let (mut values, rounds) = long(&cells, &mut submitter);
    for kernel in 0..3 {
        let before = cells.read();
        let seq = submitter.submit_blocking(cells.append(kernel, rounds)).unwrap();
        let mut stopped = 0;
        for preemptions in 1.. {
            std::thread::sleep(PERIOD);
            queue.preempt(true).unwrap();
            if submitter.completed() > seq {
                break;
            }
            stopped += u64::from(cells.read() == before);
            assert!(preemptions < MAX_PREEMPTIONS, "kernel {kernel} is starved by preemptions");
            queue.restore().unwrap();
        }
        assert!(stopped >= 2, "kernel {kernel} was stopped {stopped} times");
        queue.restore().unwrap();
        values.push(kernel);
    }
    assert!(queue.rerun() >= 6, "{} commands ran again", queue.rerun());
    queue.finish().unwrap();
    assert_eq!(cells.read(), vec![appended(values); 2]);
}

/// Rounds with which a kernel takes some periods, and the values that were appended to find out.
fn long<D: Device>(cells: &Cells<D>, submitter: &mut Submitter<D>) -> (Vec<u64>, u64) {
    let mut values = Vec::new();
    for rounds in (8..32).map(|shift| 1 << shift) {
        let start = Instant::now();
        let seq = submitter.submit_blocking(cells.append(1, rounds)).unwrap();
        submitter.wait(seq).unwrap();
        values.push(1);
        if start.elapsed() >= PERIODS * PERIOD {
            return (values, rounds);
        }
    }
    panic!("2³² rounds take no time");
}
