//! Use of the host by the daemon, from `/proc/self` (proc(5)), under the names of Prometheus'
//! client libraries.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

/// Memory, processor time, threads and files of the process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    resident: Gauge,
    threads: Gauge,
    files: Gauge,
    cpu: Counter<f64, AtomicU64>,
}

impl Process {
    pub(crate) fn register(&self, all: &mut Registry) {
        let resident = "Memory that is resident";
        all.register("process_resident_memory_bytes", resident, self.resident.clone());
        all.register("process_threads", "Threads", self.threads.clone());
        all.register("process_open_fds", "Files that are open", self.files.clone());
        let cpu = "Processor time of user and system";
        all.register("process_cpu_seconds", cpu, self.cpu.clone());
    }

    /// Updates all values. A value that cannot be read stays as it is.
    #[expect(clippy::disallowed_methods, reason = "of /proc")]
    pub(crate) fn update(&self) {
        let status = std::fs::read("/proc/self/status").unwrap_or_default();
        let status = String::from_utf8_lossy(&status); // it begins with a name of any bytes
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_ascii_whitespace().next()?.parse::<i64>().ok()
        };
        number("VmRSS:").map(|kib| self.resident.set(kib << 10));
        number("Threads:").map(|threads| self.threads.set(threads));
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            self.files.set(files.count() as i64 - 1); // without the folder
        }
        if let Some(seconds) = cpu_seconds() {
            self.cpu.inc_by((seconds - self.cpu.get()).max(0.0));
        }
    }
}

/// Reads fields 14 and 15 of `stat`, in clock ticks. The second field is a name with any
/// characters.
#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read("/proc/self/stat").ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_metrics_read_the_own_process() {
        let process = Process::default();
        process.update();
        assert!(process.resident.get() > 1 << 20, "{process:?}");
        assert!(process.threads.get() >= 1 && process.files.get() >= 3, "{process:?}");
        assert!(cpu_seconds().is_some());
    }
}
