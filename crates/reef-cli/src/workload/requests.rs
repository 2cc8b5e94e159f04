//! Real-time requests that arrive whatever became of those before.

use crate::workload::clock::{histogram, note};
use anyhow::Result;
use hdrhistogram::Histogram;
use reef::{Device, Error, RtClient, Task, Ticket};
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

/// A request that was submitted so much after its arrival says that this process found no core.
const LATE: Duration = Duration::from_millis(1);
/// Time within which requests end that were counted as dropped.
const MAX_REST: Duration = Duration::from_secs(60);
/// Time between two polls of the last requests. Their times are the dispatcher's.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Results of real-time requests.
pub(crate) struct Requests {
    /// Time from arrival until the dispatcher noted the end, in nanoseconds. A request that never
    /// ended is in it with the time that it waited.
    pub(crate) latency: Histogram<u64>,
    /// Time from submission until the first command could start, in nanoseconds.
    pub(crate) start: Histogram<u64>,
    /// Requests that were submitted later than [`LATE`].
    pub(crate) late: u64,
    /// Requests that were refused, or not finished in twice the time of the measurement.
    pub(crate) dropped: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self { latency: histogram(), start: histogram(), late: 0, dropped: 0 }
    }
}

/// Submits each request when it arrives, whatever became of those before. Its latency counts from
/// its arrival, so one that has to wait for others, or for this thread, shows it. `wait` waits
/// until the device's clock shows a time.
pub(crate) fn open_loop<D: Device>(
    device: &D,
    mut client: RtClient<D>,
    task: &Task<D>,
    arrivals: &[Duration],
    time: Duration,
    wait: fn(&D, Duration),
) -> Result<Requests> {
    let mut requests = Requests::default();
    let mut open = VecDeque::new();
    let begin = device.clock();
    for &after in arrivals {
        let arrived = begin + after;
        wait(device, arrived);
        requests.late += u64::from(device.clock() - arrived > LATE);
        match client.submit(task) {
            Ok(ticket) => open.push_back(Open { arrived, ticket }),
            Err(Error::State { .. }) => requests.dropped += 1,
            Err(error) => return Err(error.into()),
        }
        requests.note_finished(&mut open)?;
    }
    while !open.is_empty() && device.clock() < begin + 2 * time {
        thread::sleep(POLL_INTERVAL);
        requests.note_finished(&mut open)?;
    }
    for request in open {
        note(&mut requests.latency, device.clock() - request.arrived);
        requests.dropped += 1;
        // Its work is the caller's until it has ended.
        if let Some(end) = request.ticket.wait_timeout(MAX_REST) {
            end?;
        }
    }
    wait(device, begin + time);
    Ok(requests)
}

/// A request that has not been seen to finish.
struct Open<D: Device> {
    arrived: Duration,
    ticket: Ticket<D>,
}

impl Requests {
    /// Takes out what has finished; requests do so in the order in which they came.
    fn note_finished<D: Device>(&mut self, open: &mut VecDeque<Open<D>>) -> Result<()> {
        while let Some(timing) = open.front().and_then(|request| request.ticket.try_wait()) {
            let (timing, request) = (timing?, open.pop_front().expect("the front is there"));
            note(&mut self.latency, timing.submitted + timing.total - request.arrived);
            note(&mut self.start, timing.delay);
        }
        Ok(())
    }
}
