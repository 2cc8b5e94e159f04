//! Jobs with limits, as the daemon reads them in their accounts.

use super::rates::Rates;
use crate::remote::scrape::Labels;
use serde::Serialize;

/// A job on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Job {
    /// Empty: programs without a job.
    pub(crate) job: String,
    pub(crate) device: String,
    /// `None`: no limit.
    pub(crate) memory_bytes: Option<u64>,
    /// Limit that the kernel keeps for each of its processes; `None`: the library alone keeps it.
    pub(crate) memory_kernel_bytes: Option<u64>,
    pub(crate) memory_used_bytes: u64,
    /// Part of that for contexts, as far as NVML reports it.
    pub(crate) memory_overhead_bytes: u64,
    /// Its part of the device's time; `None`: no limit.
    pub(crate) compute: Option<f64>,
    /// The part that it had, of the interval.
    pub(crate) compute_used: Option<f64>,
    /// Allocations that were refused since its first process joined.
    pub(crate) refused: u64,
    /// Time for which its launches waited, of the interval: beyond 1 with several threads.
    pub(crate) waited: Option<f64>,
}

/// Jobs that have processes now.
pub(super) fn jobs(rates: Rates<'_>) -> Vec<Job> {
    let all = rates.after.all("reef_limit_memory_used_bytes").iter();
    let mut all: Vec<Job> = all.map(|(of, _)| job(rates, of)).collect();
    all.sort_by(|a, b| (&a.device, &a.job).cmp(&(&b.device, &b.job)));
    all
}

fn job(rates: Rates<'_>, labels: &Labels) -> Job {
    let text = |name: &str| labels.get(name).cloned().unwrap_or_default();
    let mine =
        |of: &Labels| ["device", "job"].iter().all(|name| of.get(*name) == labels.get(*name));
    let now = |name: &str| rates.after.sum(name, mine);
    let bytes = |name: &str| now(name).map(|bytes| bytes as u64);
    let compute = now("reef_limit_compute_ratio");
    let rate = |name: &str| compute.map(|_| rates.rate(name, mine));
    Job {
        job: text("job"),
        device: text("device"),
        memory_bytes: bytes("reef_limit_memory_bytes"),
        memory_kernel_bytes: bytes("reef_limit_memory_kernel_bytes"),
        memory_used_bytes: bytes("reef_limit_memory_used_bytes").unwrap_or(0),
        memory_overhead_bytes: bytes("reef_limit_memory_overhead_bytes").unwrap_or(0),
        compute,
        compute_used: rate("reef_limit_compute_seconds_total"),
        refused: bytes("reef_limit_refused_total").unwrap_or(0),
        waited: rate("reef_limit_waited_seconds_total"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::scrape::Scrape;
    use std::time::Duration;

    fn numbers(times: u64) -> String {
        let of = "device=\"66\",job=\"team\"";
        format!(
            "reef_limit_memory_bytes{{{of}}} 8.0\nreef_limit_memory_kernel_bytes{{{of}}} 9.0\nreef_limit_memory_used_bytes{{{of}}} 5.0\n\
             reef_limit_memory_overhead_bytes{{{of}}} 2.0\nreef_limit_compute_ratio{{{of}}} 0.3\n\
             reef_limit_compute_seconds_total{{{of}}} {}\nreef_limit_refused_total{{{of}}} 7.0\n\
             reef_limit_waited_seconds_total{{{of}}} {}\n\
             reef_limit_memory_used_bytes{{device=\"66\",job=\"\"}} 1.0\n",
            0.25 * times as f64,
            1.5 * times as f64,
        )
    }

    #[test]
    fn a_job_has_its_limits_and_what_it_had_in_the_interval() {
        let [before, after] = [1, 3].map(|times| Scrape::parse(&numbers(times)));
        let rates = Rates { before: &before, after: &after, time: Duration::from_secs(2) };
        let [none, team] = &jobs(rates)[..] else { panic!("{:?}", jobs(rates)) };
        assert_eq!((none.memory_bytes, none.memory_used_bytes, none.compute_used), (None, 1, None));
        assert_eq!((team.memory_bytes, team.memory_used_bytes), (Some(8), 5));
        assert_eq!((none.memory_kernel_bytes, team.memory_kernel_bytes), (None, Some(9)));
        assert_eq!((team.memory_overhead_bytes, team.refused), (2, 7));
        assert_eq!((team.compute, team.compute_used), (Some(0.3), Some(0.25)));
        assert_eq!((&*team.job, team.waited), ("team", Some(1.5)));
    }
}
