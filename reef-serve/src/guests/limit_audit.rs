//! Limits of unmodified programs, as their books say: read for metrics, and charged with what
//! contexts take.
//!
//! Limits hold without a daemon. What a daemon adds is what a program can't know of itself: how
//! much of the device its context and its code have, which the driver's management library says.

use super::violations::scan::Violations;
use parking_lot::{Mutex, RwLock};
use reef_guest::limit::{Audit, JobView};
use reef_nvml::{Busy, Error, Monitor, Nvml, Process, Uuid, VARIABLE};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the books are looked at.
const TICK: Duration = Duration::from_secs(1);

/// Finds what knows of processes, when there is somebody to know of.
type Open = dyn Fn() -> Result<Box<dyn Monitor>, Error> + Send + Sync;

/// The books of the daemon's user.
pub(super) struct Books {
    audit: RwLock<Audit>,
    open: Box<Open>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: not asked for yet.
    monitor: Option<Option<Arc<dyn Monitor>>>,
    /// The last samples of each device.
    busy: HashMap<Uuid, Vec<Busy>>,
    /// What was logged.
    said: BTreeSet<String>,
}

impl std::fmt::Debug for Books {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Books").field("audit", &self.audit).finish_non_exhaustive()
    }
}

impl State {
    /// From when on samples of a device are new.
    fn since(&self, device: &Uuid) -> u64 {
        let known = self.busy.get(device).into_iter().flatten();
        known.map(|busy| busy.at).max().unwrap_or(0)
    }
}

fn unknown(error: &Error) -> String {
    format!("limits count what programs allocate, and not what their contexts take: {error}")
}

impl Books {
    /// The books in this folder; `open` is asked for the management library.
    pub(super) fn new(folder: PathBuf, open: Box<Open>) -> Self {
        Self { audit: RwLock::new(Audit::new(folder)), open, state: Mutex::default() }
    }

    /// All jobs with limits, as they are now.
    pub(super) fn jobs(&self) -> Vec<JobView> {
        self.audit.read().jobs()
    }

    /// Per cent of the time in which kernels of a process ran, if the driver says so.
    pub(super) fn busy(&self, device: &Uuid, pid: u32) -> Option<u32> {
        let state = self.state.lock();
        let found = state.busy.get(device)?.iter().find(|busy| busy.pid == pid)?;
        Some(found.percent)
    }

    /// Looks for books that are new, and charges jobs with what their contexts take. One thread
    /// does that.
    fn look(&self) {
        let refreshed = self.audit.write().refresh();
        refreshed.unwrap_or_else(|error| self.say(error.to_string()));
        let devices: BTreeSet<Uuid> = self.jobs().iter().map(|job| job.device).collect();
        if let Some(monitor) = (!devices.is_empty()).then(|| self.monitor()).flatten() {
            self.ask(&*monitor, &devices);
        }
    }

    /// The management library, opened when it is first wanted. `None`: there is none, which is
    /// said.
    fn monitor(&self) -> Option<Arc<dyn Monitor>> {
        let known = self.state.lock().monitor.clone();
        known.unwrap_or_else(|| {
            let opened = (self.open)().map_err(|error| self.say(unknown(&error)));
            let monitor = opened.ok().map(Arc::from);
            self.state.lock().monitor = Some(monitor.clone());
            monitor
        })
    }

    /// Asks the driver, which may take its time: nobody who reads metrics waits for that.
    fn ask(&self, monitor: &dyn Monitor, devices: &BTreeSet<Uuid>) {
        if self.is_alone() {
            self.audit.read().charge(|device| {
                let found =
                    monitor.processes(device).map_err(|error| self.say(unknown(&error))).ok()?;
                Some(found.into_iter().map(|process| (process.pid, process.memory)).collect())
            });
        }
        // Samples are extra: a driver without them has memory alone.
        let since = |device: &Uuid| self.state.lock().since(device);
        let busy = |device: &Uuid| Some((*device, monitor.busy(device, since(device)).ok()?));
        let busy: Vec<_> = devices.iter().filter_map(busy).collect();
        let mut state = self.state.lock();
        state.busy.retain(|device, _| devices.contains(device));
        state.busy.extend(busy);
    }

    /// Whether this daemon is the one that charges.
    fn is_alone(&self) -> bool {
        let is_alone = self.audit.write().is_alone();
        match is_alone {
            Ok(true) => return true,
            Ok(false) => self.say("another daemon charges limits of this user's programs".into()),
            Err(error) => self.say(format!("limits: no lock for charging them: {error}")),
        }
        false
    }

    /// Who is on a device. `None`: the driver doesn't say, or there is no library to ask.
    fn processes(&self, device: &Uuid) -> Option<Vec<Process>> {
        self.monitor()?.processes(device).ok()
    }

    /// Logs a line once.
    fn say(&self, line: String) {
        let mut state = self.state.lock();
        if !state.said.contains(&line) {
            tracing::warn!("{line}");
            state.said.insert(line);
        }
    }
}

/// Looks at the books and for violations every second, for as long as it lives.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(books: Arc<Books>, violations: Arc<Violations>) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || loop {
            books.look();
            violations.look(&books.jobs(), |device| books.processes(device), Instant::now());
            if stopped.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        };
        let thread = std::thread::Builder::new().name("reef-books".into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join); // a panic has been printed
    }
}

/// The driver's library, or the one that the environment names.
pub(super) fn nvml() -> Result<Box<dyn Monitor>, Error> {
    let named = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
    Ok(Box::new(Nvml::open(named.as_deref())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_guest::limit::{BooksFile, Seat};

    const DEVICE: Uuid = *b"sixteen bytes id";

    /// What the driver says of this process.
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

    /// Books with a job of this process that has 30 of 100 bytes, looked at with this driver.
    fn looked(
        name: &str,
        fake: impl Fn() -> Result<Fake, Error> + Send + Sync + 'static,
    ) -> (Books, Seat) {
        let folder = std::env::temp_dir().join(format!("reef-watch-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
        let open = move || fake().map(|fake| Box::new(fake) as Box<dyn Monitor>);
        let books = Books::new(folder.clone(), Box::new(open));
        books.look(); // there is no folder, and nobody to ask about
        assert!(books.state.lock().monitor.is_none());
        let file = BooksFile::open(&folder, &DEVICE).unwrap();
        let seat = Seat::join(file, "REEF_JOB=job", Some(100), None).unwrap();
        seat.account().reserve(30).unwrap();
        books.look();
        books.look();
        let _ = std::fs::remove_dir_all(&folder);
        (books, seat)
    }

    #[test]
    fn jobs_are_charged_with_what_their_contexts_take() {
        let (books, seat) = looked("charged", || Ok(Fake(Ok(Some(50)))));
        let [job] = &books.jobs()[..] else { panic!("{:?}", books.jobs()) };
        assert_eq!((job.used, job.overhead, job.memory), (50, 20, Some(100)));
        assert!(seat.account().reserve(51).is_err());
        assert_eq!(books.busy(&DEVICE, std::process::id()), Some(37));
        assert_eq!(books.busy(&DEVICE, 1), None);
    }

    #[test]
    fn of_two_daemons_one_charges_and_the_other_says_so() {
        let folder = std::env::temp_dir().join(format!("reef-watch-pair-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
        let file = BooksFile::open(&folder, &DEVICE).unwrap();
        let _pair = Seat::join(file, "REEF_JOB=job", Some(100), None).unwrap();
        let new = |bytes| {
            let open = move || Ok(Box::new(Fake(Ok(Some(bytes)))) as Box<dyn Monitor>);
            Books::new(folder.clone(), Box::new(open))
        };
        let (one, two) = (new(40), new(60));
        [&one, &two, &one, &two].into_iter().for_each(Books::look);
        assert_eq!(two.jobs()[0].overhead, 40);
        let said: Vec<_> = two.state.lock().said.iter().cloned().collect();
        assert_eq!(said, ["another daemon charges limits of this user's programs"]);
        drop(one);
        two.look();
        assert_eq!(two.jobs()[0].overhead, 60, "the first one has ended");
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_driver_that_does_not_say_is_one_line_and_limits_go_on() {
        let absent = || Err(Error::Absent("libnvidia-ml.so.1: not found".into()));
        let (books, seat) = looked("absent", absent);
        let said: Vec<_> = books.state.lock().said.iter().cloned().collect();
        let line = "limits count what programs allocate, and not what their contexts take: nvml: libnvidia-ml.so.1: not found";
        assert_eq!(said, [line]);
        assert_eq!(seat.account().reserve(70), Ok(()));
        let text = "Not Supported".to_owned();
        let mig =
            Error::Call { function: "nvmlDeviceGetComputeRunningProcesses_v3", code: 3, text };
        let (books, seat) = looked("mig", move || Ok(Fake(Err(mig.clone()))));
        assert_eq!(books.state.lock().said.len(), 1);
        assert_eq!((seat.account().used(), seat.account().overhead()), (30, 0));
        let (books, seat) = looked("wsl", || Ok(Fake(Ok(None))));
        assert_eq!((books.state.lock().said.len(), seat.account().overhead()), (0, 0));
    }
}
