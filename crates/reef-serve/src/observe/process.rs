//! Use of the host by the daemon, from `/proc/self` (proc(5)), under the names of Prometheus'
//! client libraries, and by all programs, under Triton's names.

use parking_lot::Mutex;
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
    host: Host,
}

impl Process {
    pub(crate) fn register(&self, all: &mut Registry) {
        let resident = "Memory that is resident";
        all.register("process_resident_memory_bytes", resident, self.resident.clone());
        all.register("process_threads", "Threads", self.threads.clone());
        all.register("process_open_fds", "Files that are open", self.files.clone());
        let cpu = "Processor time of user and system";
        all.register("process_cpu_seconds", cpu, self.cpu.clone());
        self.host.register(all);
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
        self.host.update();
    }
}

/// Memory and processor time of the whole machine.
#[derive(Debug, Default)]
struct Host {
    utilization: Gauge<f64, AtomicU64>,
    memory: Gauge,
    used: Gauge,
    /// Clock ticks of all processors at the last update, and those that were not idle.
    ticks: Mutex<[u64; 2]>,
}

impl Host {
    fn register(&self, all: &mut Registry) {
        let help = "Part of the time since the scrape before in which processors were not idle";
        all.register("nv_cpu_utilization", help, self.utilization.clone());
        let help = "Bytes of the machine's memory";
        all.register("nv_cpu_memory_total_bytes", help, self.memory.clone());
        let help = "Bytes of the machine's memory that programs could not get";
        all.register("nv_cpu_memory_used_bytes", help, self.used.clone());
    }

    /// Updates all values. A value that cannot be read stays as it is.
    #[expect(clippy::disallowed_methods, reason = "of /proc")]
    fn update(&self) {
        let read = |file: &str| {
            let bytes = std::fs::read(file).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if let Some(now) = ticks(&read("/proc/stat")) {
            let before = std::mem::replace(&mut *self.ticks.lock(), now);
            if let Some(part) = busy_part(before, now) {
                self.utilization.set(part);
            }
        }
        if let Some([all, available]) = memory(&read("/proc/meminfo")) {
            self.memory.set(all);
            self.used.set(all - available);
        }
    }
}

/// Clock ticks of all processors since the machine started, and those that were not idle: the first
/// line of `/proc/stat`, whose fields are user, nice, system, idle, iowait, irq, softirq and steal.
fn ticks(stat: &str) -> Option<[u64; 2]> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().take(8);
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, iowait, others @ ..] = &fields[..] else { return None };
    let busy = user + nice + system + others.iter().sum::<u64>();
    Some([busy + idle + iowait, busy])
}

/// Part of the time between two counts of [`ticks`] in which processors were not idle. `None`: no
/// time has passed. The time of waits for I/O may fall (proc(5)), so the part is at most 1.
fn busy_part(before: [u64; 2], now: [u64; 2]) -> Option<f64> {
    let all = now[0].saturating_sub(before[0]);
    let busy = now[1].saturating_sub(before[1]);
    (all > 0).then(|| busy.min(all) as f64 / all as f64)
}

/// Bytes of memory, and those that programs can get, of `/proc/meminfo`.
fn memory(info: &str) -> Option<[i64; 2]> {
    let bytes = |key: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.split_ascii_whitespace().next()?.parse::<i64>().ok()? << 10)
    };
    Some([bytes("MemTotal:")?, bytes("MemAvailable:")?])
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
        let (all, used) = (process.host.memory.get(), process.host.used.get());
        assert!(0 < used && used < all, "{process:?}");
        assert!((0.0..=1.0).contains(&process.host.utilization.get()), "{process:?}");
    }

    #[test]
    fn host_is_busy_when_it_is_not_idle() {
        let stat = "cpu  10 20 30 400 50 6 7 8 900 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(ticks(stat), Some([531, 81]));
        assert_eq!(ticks("cpu  10 20 30 400\n"), None);
        assert_eq!(ticks(""), None);
        assert_eq!(busy_part([500, 80], [540, 90]), Some(0.25));
        assert_eq!(busy_part([500, 80], [540, 130]), Some(1.0), "less time of waits for I/O");
        assert_eq!(busy_part([500, 80], [500, 80]), None);
        let info = "MemTotal:       16 kB\nMemFree:         1 kB\nMemAvailable:    4 kB\n";
        assert_eq!(memory(info), Some([16 << 10, 4 << 10]));
        assert_eq!(memory("MemTotal:       16 kB\n"), None);
    }
}
