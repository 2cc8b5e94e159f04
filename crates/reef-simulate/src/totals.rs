//! Totals of a simulation.

use hdrhistogram::Histogram;

/// Upper bound of latencies that are told apart: an hour, in nanoseconds.
const MAX_LATENCY_NANOS: u64 = 3_600_000_000_000;

/// Counts of all devices. All are integers, so that the order in which devices are added changes
/// nothing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Totals {
    /// Latencies of real-time requests that finished, in nanoseconds.
    pub rt_latency: Histogram<u64>,
    /// Their sum, in nanoseconds.
    pub rt_latency_sum: u128,
    /// Real-time requests that came; `rt_in_time + rt_late + rt_left`.
    pub rt_arrivals: u64,
    /// Of those, finished by their deadline, or without one.
    pub rt_in_time: u64,
    /// Finished after their deadline.
    pub rt_late: u64,
    /// Not finished at the end.
    pub rt_left: u64,
    /// Of those not finished, past their deadline.
    pub rt_left_late: u64,
    /// Best-effort requests that came: `be_finished + be_left`. In a closed loop without pause each
    /// finished request counts, and the one that runs at the end.
    pub be_arrivals: u64,
    /// Best-effort requests that finished.
    pub be_finished: u64,
    /// Best-effort requests that wait or run at the end.
    pub be_left: u64,
    /// Best-effort work that was done, as the nanoseconds that it takes alone.
    pub be_work: u64,
    /// Best-effort work of a simulation without real-time clients, under `streams`.
    pub be_work_alone: u64,
    /// Preemptions of best-effort work.
    pub preemptions: u64,
    /// Calls of the scheduler.
    pub decisions: u64,
    /// Devices that have a client.
    pub devices_used: u64,
    /// Nanoseconds of devices on which something ran.
    pub busy: u64,
}

impl Default for Totals {
    fn default() -> Self {
        let rt_latency =
            Histogram::new_with_bounds(1, MAX_LATENCY_NANOS, 3).expect("bounds are in range");
        Self {
            rt_latency,
            rt_latency_sum: 0,
            rt_arrivals: 0,
            rt_in_time: 0,
            rt_late: 0,
            rt_left: 0,
            rt_left_late: 0,
            be_arrivals: 0,
            be_finished: 0,
            be_left: 0,
            be_work: 0,
            be_work_alone: 0,
            preemptions: 0,
            decisions: 0,
            devices_used: 0,
            busy: 0,
        }
    }
}

impl Totals {
    /// Notes a real-time request that finished.
    pub(crate) fn note(&mut self, latency: u64, in_time: bool) {
        self.rt_latency.saturating_record(latency.max(1));
        self.rt_latency_sum += u128::from(latency);
        self.rt_in_time += u64::from(in_time);
        self.rt_late += u64::from(!in_time);
    }

    /// Adds those of other devices.
    pub(crate) fn add(&mut self, other: &Self) {
        self.rt_latency.add(&other.rt_latency).expect("all have the same bounds");
        self.rt_latency_sum += other.rt_latency_sum;
        self.rt_arrivals += other.rt_arrivals;
        self.rt_in_time += other.rt_in_time;
        self.rt_late += other.rt_late;
        self.rt_left += other.rt_left;
        self.rt_left_late += other.rt_left_late;
        self.be_arrivals += other.be_arrivals;
        self.be_finished += other.be_finished;
        self.be_left += other.be_left;
        self.be_work += other.be_work;
        self.be_work_alone += other.be_work_alone;
        self.preemptions += other.preemptions;
        self.decisions += other.decisions;
        self.devices_used += other.devices_used;
        self.busy += other.busy;
    }

    /// Mean latency of real-time requests that finished, in ms; 0 if there are none.
    pub fn rt_mean_ms(&self) -> f64 {
        let finished = self.rt_in_time + self.rt_late;
        if finished == 0 { 0.0 } else { self.rt_latency_sum as f64 / finished as f64 / 1e6 }
    }

    /// A quantile of real-time latencies in ms, within 0.1 %; 0 if there are none.
    pub fn rt_quantile_ms(&self, quantile: f64) -> f64 {
        self.rt_latency.value_at_quantile(quantile) as f64 / 1e6
    }

    /// Real-time requests that missed their deadline, finished or not.
    pub fn misses(&self) -> u64 {
        self.rt_late + self.rt_left_late
    }

    /// Part of best-effort work that was done, of what would have been without real-time work; 1 if
    /// there is none.
    pub fn be_kept(&self) -> f64 {
        if self.be_work_alone == 0 { 1.0 } else { self.be_work as f64 / self.be_work_alone as f64 }
    }
}
