//! Daemon without free file descriptors: it refuses with a reason, and still notices guests that
//! leave.

use reef_guest::join::{JoinRequest, Joined, Refusal, join};
use reef_guest::page::Class;
use reef_guest::registry::Registry;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Socket of the daemon below, and number of descriptors that it keeps free within its limit.
const SOCKET: &str = "REEF_TEST_SOCKET";
const FREE: &str = "REEF_TEST_FREE";
/// Longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);
const DESCRIPTORS: u64 = 256;

#[test]
#[ignore = "is a program that another test runs"]
fn serve() {
    // SAFETY: ends this process after 300 s, also if its parent has ended.
    unsafe { libc::alarm(300) };
    let path = PathBuf::from(std::env::var_os(SOCKET).unwrap());
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let registry = Registry::open(&path, Box::new(|_, request| Ok(request.class))).unwrap();
    let others: Vec<File> = match std::env::var(FREE).unwrap().parse() {
        Ok(free) => crowd(free),
        Err(_) => Vec::new(),
    };
    loop {
        println!("guests {}", registry.guests().len());
        std::thread::sleep(Duration::from_millis(5)); // sleep: interval of the reports
        assert!(others.len() < 1000);
    }
}

/// Opens descriptors until only `free` are left.
fn crowd(free: usize) -> Vec<File> {
    let mut all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    all.truncate(all.len() - free);
    all
}

struct Daemon {
    process: Child,
    path: PathBuf,
    guests: Arc<AtomicUsize>,
}

impl Daemon {
    fn start(name: &str, free: &str) -> Self {
        let path = std::env::temp_dir().join(format!("reef-{name}-{}", std::process::id()));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "descriptors::serve", "--include-ignored", "--nocapture"]);
        command.env(SOCKET, &path).env(FREE, free).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (lines, guests) = (BufReader::new(process.stdout.take().unwrap()), Arc::default());
        let said: Arc<AtomicUsize> = Arc::clone(&guests);
        said.store(usize::MAX, SeqCst);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let number =
                    line.rsplit_once("guests ").and_then(|(_, number)| number.parse().ok());
                number.into_iter().for_each(|number| said.store(number, SeqCst));
            }
        });
        let daemon = Self { process, path, guests };
        daemon.until(0);
        daemon
    }

    /// Waits until the daemon has this number of guests.
    fn until(&self, guests: usize) {
        let begin = Instant::now();
        while self.guests.load(SeqCst) != guests {
            let has = self.guests.load(SeqCst);
            assert!(begin.elapsed() < SOON, "{has} guests, and not {guests}, after {SOON:?}");
            std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it has ended already
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.path);
    }
}

fn ask(path: &Path) -> Result<Joined, Refusal> {
    join(path, &JoinRequest { class: Class::BestEffort, device: [7; 16] }, Duration::from_secs(10))
}

/// Joins until it is refused. Returns the guests, and the reason of the refusal.
fn fill(daemon: &Daemon) -> (Vec<Joined>, String) {
    let mut all = Vec::new();
    loop {
        match ask(&daemon.path) {
            Ok(joined) => all.push(joined),
            Err(Refusal::Refused(why)) => return (all, why),
            Err(other) => panic!("after {} guests: {other}", all.len()),
        }
    }
}

/// Fills the daemon and empties it again, several times: lost descriptors would add up.
fn is_full_and_empty_again(daemon: &Daemon, most: usize) {
    for _ in 0..5 {
        let (all, why) = fill(daemon);
        assert!((1..=most).contains(&all.len()), "{} guests, {why}", all.len());
        assert!(why.contains("descriptor") || why.contains("open files"), "{why}");
        let before = Instant::now();
        (0..3).for_each(|_| assert!(ask(&daemon.path).is_err()));
        assert!(before.elapsed() < SOON / 2, "the next ones are told as well");
        let left = all.len() / 2;
        let mut all = all;
        drop(all.split_off(left));
        daemon.until(left);
        drop(all);
        daemon.until(0);
    }
}

#[test]
fn daemon_with_few_descriptors_refuses_and_notices_leaving() {
    let limit = Rlimit { current: Some(1024), maximum: Some(1024) };
    let _ = setrlimit(Resource::Nofile, limit); // a lower one is as good
    is_full_and_empty_again(&Daemon::start("few", ""), DESCRIPTORS as usize / 8);
}

/// Other connections have taken all descriptors.
#[test]
fn daemon_without_descriptors_refuses_with_the_reason() {
    for free in ["0", "1", "2", "3", "7", "8", "9", "20"] {
        let daemon = Daemon::start("crowded", free);
        match free {
            "0" | "1" | "2" => {
                let Err(Refusal::Refused(why)) = ask(&daemon.path) else { panic!("{free}") };
                assert!(why.contains("descriptor") || why.contains("open files"), "{why}");
            }
            _ => is_full_and_empty_again(&daemon, 10),
        }
    }
}
