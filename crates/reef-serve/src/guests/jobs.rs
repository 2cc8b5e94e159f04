//! Metrics of jobs with limits, read from their accounts when they are scraped.

use super::collector::hex;
use super::limit_audit::Accounts;
use crate::observe::series::write_family;
use prometheus_client::collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use reef_guest::limit::{Cgroups, JobView};
use std::fmt::Error;
use std::sync::Arc;

/// Reads the accounts.
#[derive(Debug)]
pub(super) struct Jobs(pub(super) Arc<Accounts>);

type Number = fn(&JobView) -> Option<f64>;

/// Name, help, and getter of each gauge; `None` if that is not limited.
const GAUGES: [(&str, &str, Number); 5] = [
    ("reef_limit_memory_bytes", "Device memory that a job may have", |job| {
        job.memory.map(|bytes| bytes as f64)
    }),
    (
        "reef_limit_memory_kernel_bytes",
        "Device memory that the kernel (dmem) lets each process of a job have, if it does for all",
        |job| job.kept_by_kernel(&Cgroups::default()).map(|bytes| bytes as f64),
    ),
    (
        "reef_limit_memory_used_bytes",
        "Device memory that a job has, with what its contexts take",
        |job| Some(job.used as f64),
    ),
    (
        "reef_limit_memory_overhead_bytes",
        "Device memory that a job's contexts take, as far as NVML says so",
        |job| Some(job.overhead as f64),
    ),
    ("reef_limit_compute_ratio", "Part of the device's time that a job may have", |job| {
        job.part.map(|part| f64::from(part) / 1e6)
    }),
];

/// Name, help, and getter of each counter.
const COUNTERS: [(&str, &str, Number); 3] = [
    ("reef_limit_compute_seconds", "Device time that a job with a part of it had", |job| {
        job.part.map(|_| job.ran.as_secs_f64())
    }),
    ("reef_limit_refused", "Allocations that were refused", |job| Some(job.refused as f64)),
    (
        "reef_limit_waited_seconds",
        "Time for which a job's launches waited for its part, in all threads",
        |job| job.part.map(|_| job.waited.as_secs_f64()),
    ),
];

impl collector::Collector for Jobs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let jobs = self.0.jobs();
        for (name, help, number) in GAUGES {
            let known = jobs.iter().filter_map(|job| Some((labels(job), number(job)?)));
            let series = known.map(|(labels, number)| (labels, ConstGauge::new(number)));
            write_family(&mut encoder, name, help, series)?;
        }
        for (name, help, number) in COUNTERS {
            let known = jobs.iter().filter_map(|job| Some((labels(job), number(job)?)));
            let series = known.map(|(labels, number)| (labels, ConstCounter::new(number)));
            write_family(&mut encoder, name, help, series)?;
        }
        self.processes(encoder, &jobs)
    }
}

impl Jobs {
    /// Encodes the driver's samples of each process.
    fn processes(&self, mut encoder: DescriptorEncoder<'_>, jobs: &[JobView]) -> Result<(), Error> {
        let help = "Part of the time in which kernels of a process ran, as NVML samples it";
        let name = "reef_limit_process_busy_ratio";
        let all =
            jobs.iter().flat_map(|job| job.processes.iter().map(move |process| (job, process)));
        let series = all.filter_map(|(job, process)| {
            let percent = self.0.busy(&job.device, process.pid)?;
            let [device, name] = labels(job);
            let labels = [device, name, ("pid", process.pid.to_string())];
            Some((labels, ConstGauge::new(f64::from(percent) / 100.0)))
        });
        write_family(&mut encoder, name, help, series)
    }
}

fn labels(job: &JobView) -> [(&'static str, String); 2] {
    [("device", hex(&job.device)), ("job", job.name.clone())]
}
