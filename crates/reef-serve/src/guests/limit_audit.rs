//! Audit of unmodified programs' limits: their accounts are read for metrics, and charged with the
//! memory of contexts.
//!
//! Limits hold without a daemon. The daemon adds a figure that a program cannot know of itself: the
//! device memory of its context and its code, from the driver's management library.

use super::violations::scan::Violations;
use parking_lot::{Mutex, RwLock};
use reef_guest::limit::{Audit, JobView};
use reef_nvml::{Busy, Error, Monitor, Process, Uuid};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the accounts are read.
const AUDIT_INTERVAL: Duration = Duration::from_secs(1);

/// Opens the management library, once there is a device to query.
type Open = dyn Fn() -> Result<Box<dyn Monitor>, Error> + Send + Sync;

/// Accounts of the programs of the daemon's user.
pub(super) struct Accounts {
    audit: Arc<RwLock<Audit>>,
    open: Box<Open>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` until it is first needed.
    monitor: Option<Option<Arc<dyn Monitor>>>,
    /// Last samples of each device.
    busy: HashMap<Uuid, Vec<Busy>>,
    /// Lines that have been logged.
    logged: BTreeSet<String>,
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Accounts").field("audit", &self.audit).finish_non_exhaustive()
    }
}

impl State {
    /// Returns the time from which samples of a device are new.
    fn since(&self, device: &Uuid) -> u64 {
        let known = self.busy.get(device).into_iter().flatten();
        known.map(|busy| busy.at).max().unwrap_or(0)
    }
}

fn no_overhead_text(error: &Error) -> String {
    format!("limits do not count the memory of contexts: {error}")
}

impl Accounts {
    /// Reads the accounts in this folder; `open` opens the management library.
    pub(super) fn new(folder: PathBuf, open: Box<Open>) -> Self {
        let audit = Arc::new(RwLock::new(Audit::new(folder)));
        Self { audit, open, state: Mutex::default() }
    }

    /// Returns the reader of the accounts, for the page.
    pub(super) fn shared(&self) -> Arc<RwLock<Audit>> {
        self.audit.clone()
    }

    /// Returns all jobs with limits, with their current use.
    pub(super) fn jobs(&self) -> Vec<JobView> {
        self.audit.read().jobs()
    }

    /// Returns the percentage of time in which kernels of a process ran, if the driver samples it.
    pub(super) fn busy(&self, device: &Uuid, pid: u32) -> Option<u32> {
        let state = self.state.lock();
        let found = state.busy.get(device)?.iter().find(|busy| busy.pid == pid)?;
        Some(found.percent)
    }

    /// Reads new accounts, and charges jobs with the memory of their contexts. Called by one
    /// thread.
    fn audit(&self) {
        let refreshed = self.audit.write().refresh();
        refreshed.unwrap_or_else(|error| self.log_once(error.to_string()));
        let devices: BTreeSet<Uuid> = self.jobs().iter().map(|job| job.device).collect();
        if let Some(monitor) = (!devices.is_empty()).then(|| self.monitor()).flatten() {
            self.query(&*monitor, &devices);
        }
    }

    /// Returns the management library, opened at the first use. `None` if there is none, which is
    /// logged.
    fn monitor(&self) -> Option<Arc<dyn Monitor>> {
        let known = self.state.lock().monitor.clone();
        known.unwrap_or_else(|| {
            let opened = (self.open)().map_err(|error| self.log_once(no_overhead_text(&error)));
            let monitor = opened.ok().map(Arc::from);
            self.state.lock().monitor = Some(monitor.clone());
            monitor
        })
    }

    /// Queries the driver, which may be slow. Readers of metrics do not wait for it.
    fn query(&self, monitor: &dyn Monitor, devices: &BTreeSet<Uuid>) {
        if self.is_alone() {
            self.audit.read().charge(|device| {
                let found = monitor
                    .processes(device)
                    .map_err(|error| self.log_once(no_overhead_text(&error)))
                    .ok()?;
                Some(found.into_iter().map(|process| (process.pid, process.memory)).collect())
            });
        }
        // Samples are optional: a driver without them reports memory only.
        let since = |device: &Uuid| self.state.lock().since(device);
        let busy = |device: &Uuid| Some((*device, monitor.busy(device, since(device)).ok()?));
        let busy: Vec<_> = devices.iter().filter_map(busy).collect();
        let mut state = self.state.lock();
        state.busy.retain(|device, _| devices.contains(device));
        state.busy.extend(busy);
    }

    /// True if this daemon is the one that charges.
    fn is_alone(&self) -> bool {
        let is_alone = self.audit.write().is_alone();
        match is_alone {
            Ok(true) => return true,
            Ok(false) => {
                self.log_once("another daemon charges limits of this user's programs".into())
            }
            Err(error) => self.log_once(format!("limits: cannot lock their accounts: {error}")),
        }
        false
    }

    /// Returns the processes on a device. `None` if the driver does not report them, or there is no
    /// library.
    fn processes(&self, device: &Uuid) -> Option<Vec<Process>> {
        self.monitor()?.processes(device).ok()
    }

    /// Logs a line once.
    fn log_once(&self, line: String) {
        let mut state = self.state.lock();
        if !state.logged.contains(&line) {
            tracing::warn!("{line}");
            state.logged.insert(line);
        }
    }
}

/// Runs the audit and the scan for violations every second, until it is dropped.
#[derive(Debug)]
pub(super) struct AuditThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AuditThread {
    pub(super) fn start(
        accounts: Arc<Accounts>,
        violations: Arc<Violations>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || loop {
            accounts.audit();
            violations.scan(&accounts.jobs(), |device| accounts.processes(device), Instant::now());
            if stopped.recv_timeout(AUDIT_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        };
        let thread = std::thread::Builder::new().name("reef-accounts".into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for AuditThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join); // a panic has been printed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_guest::limit::{AccountsFile, Slot};

    const DEVICE: Uuid = *b"sixteen bytes id";

    /// Fake driver with an answer about this process.
    #[derive(Debug)]
    struct Fake(Result<Option<u64>, Error>);

    impl Monitor for Fake {
        fn processes(&self, _device: &Uuid) -> Result<Vec<Process>, Error> {
            self.0.clone().map(|memory| vec![Process { pid: std::process::id(), memory }])
        }

        fn busy(&self, _device: &Uuid, since: u64) -> Result<Vec<Busy>, Error> {
            Ok(vec![Busy { pid: std::process::id(), percent: 37, at: since + 1 }])
        }
    }

    /// Returns accounts with a job of this process that has 30 of 100 bytes, after an audit with
    /// this driver.
    fn audited(
        name: &str,
        fake: impl Fn() -> Result<Fake, Error> + Send + Sync + 'static,
    ) -> (Accounts, Slot) {
        let folder = std::env::temp_dir().join(format!("reef-watch-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
        let open = move || fake().map(|fake| Box::new(fake) as Box<dyn Monitor>);
        let accounts = Accounts::new(folder.clone(), Box::new(open));
        accounts.audit(); // there is no folder, and no device to query
        assert!(accounts.state.lock().monitor.is_none());
        let file = AccountsFile::open(&folder, &DEVICE).unwrap();
        let slot = Slot::join(file, "REEF_JOB=job", Some(100), None).unwrap();
        slot.account().reserve(30).unwrap();
        accounts.audit();
        accounts.audit();
        let _ = std::fs::remove_dir_all(&folder);
        (accounts, slot)
    }

    #[test]
    fn jobs_are_charged_with_their_contexts() {
        let (accounts, slot) = audited("charged", || Ok(Fake(Ok(Some(50)))));
        let [job] = &accounts.jobs()[..] else { panic!("{:?}", accounts.jobs()) };
        assert_eq!((job.used, job.overhead, job.memory), (50, 20, Some(100)));
        assert!(slot.account().reserve(51).is_err());
        assert_eq!(accounts.busy(&DEVICE, std::process::id()), Some(37));
        assert_eq!(accounts.busy(&DEVICE, 1), None);
    }

    #[test]
    fn second_daemon_does_not_charge_and_logs_it() {
        let folder = std::env::temp_dir().join(format!("reef-watch-pair-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
        let file = AccountsFile::open(&folder, &DEVICE).unwrap();
        let _pair = Slot::join(file, "REEF_JOB=job", Some(100), None).unwrap();
        let new = |bytes| {
            let open = move || Ok(Box::new(Fake(Ok(Some(bytes)))) as Box<dyn Monitor>);
            Accounts::new(folder.clone(), Box::new(open))
        };
        let (one, two) = (new(40), new(60));
        [&one, &two, &one, &two].into_iter().for_each(Accounts::audit);
        assert_eq!(two.jobs()[0].overhead, 40);
        let logged: Vec<_> = two.state.lock().logged.iter().cloned().collect();
        assert_eq!(logged, ["another daemon charges limits of this user's programs"]);
        drop(one);
        two.audit();
        assert_eq!(two.jobs()[0].overhead, 60, "the first one has ended");
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn missing_nvml_logs_once_and_keeps_limits() {
        let absent = || Err(Error::Absent("libnvidia-ml.so.1: not found".into()));
        let (accounts, slot) = audited("absent", absent);
        let logged: Vec<_> = accounts.state.lock().logged.iter().cloned().collect();
        let line = "limits do not count the memory of contexts: nvml: libnvidia-ml.so.1: not found";
        assert_eq!(logged, [line]);
        assert_eq!(slot.account().reserve(70), Ok(()));
        let text = "Not Supported".to_owned();
        let mig =
            Error::Call { function: "nvmlDeviceGetComputeRunningProcesses_v3", code: 3, text };
        let (accounts, slot) = audited("mig", move || Ok(Fake(Err(mig.clone()))));
        assert_eq!(accounts.state.lock().logged.len(), 1);
        assert_eq!((slot.account().used(), slot.account().overhead()), (30, 0));
        let (accounts, slot) = audited("wsl", || Ok(Fake(Ok(None))));
        assert_eq!((accounts.state.lock().logged.len(), slot.account().overhead()), (0, 0));
    }
}
