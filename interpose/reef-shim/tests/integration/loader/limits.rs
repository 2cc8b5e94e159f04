//! Limits of memory: random programs of several threads and processes, some of them killed, never
//! have more than their limit; and what is said when a limit can't be kept.
//!
//! `REEF_TEST_CASES=10000 cargo test -p reef-shim --test integration limits -- --nocapture` runs
//! 10,000 programs; `REEF_TEST_SEED` says with which number they begin.

#[path = "limits/copies.rs"]
mod copies;
#[path = "limits/devices.rs"]
mod devices;
#[path = "limits/imports.rs"]
mod imports;
#[path = "limits/program.rs"]
mod program;
#[path = "limits/time.rs"]
mod time;
#[path = "limits/together.rs"]
mod together;
#[path = "limits/told.rs"]
mod told;
#[path = "limits/ways.rs"]
mod ways;

use super::processes::{piped, wait};
use crate::common::{FAKE, library};
use program::{PROGRAMS, SEED};
use reef_guest::limit::{AccountsFile, Slot};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The fake device's.
const UUID: [u8; 16] = *b"fake device no 0";
/// The limit of these programs.
const LIMIT: u64 = 192 << 20;
/// Offset of the peak memory in the fake device's file.
const PEAK_AT: usize = 8 * 64;

/// Accounts folder, file of a device, and processes that share them.
struct Job {
    folder: PathBuf,
}

impl Job {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("reef-limits-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
        std::fs::create_dir(&folder).unwrap();
        Self { folder }
    }

    fn accounts(&self) -> PathBuf {
        self.folder.join("accounts")
    }

    /// A process of this job that runs a program of this file.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", program, "--include-ignored", "--nocapture"]);
        command.env("REEF_CUDA", library(FAKE)).env("REEF_ACCOUNTS", self.accounts());
        command.env("REEF_FAKE_MEMORY", self.folder.join("device")).env("REEF_JOB", "random");
        command.env("REEF_MEMORY", LIMIT.to_string());
        command
    }

    fn start(&self, seed: u64, programs: u64) -> Child {
        let mut command = self.command("loader::limits::program::runs_at_random");
        piped(command.env(SEED, seed.to_string()).env(PROGRAMS, programs.to_string()))
    }

    /// The most that was ever taken of the device, by all processes together.
    fn peak(&self) -> u64 {
        let bytes = std::fs::read(self.folder.join("device")).unwrap();
        bytes
            .get(PEAK_AT..PEAK_AT + 8)
            .map_or(0, |peak| u64::from_le_bytes(peak.try_into().unwrap()))
    }

    /// Returns the job's memory in its accounts file, after a reclaim of dead processes.
    fn used(&self) -> u64 {
        let file = AccountsFile::open(&self.accounts(), &UUID).unwrap();
        let slot = Slot::join(file, "REEF_JOB=random", Some(LIMIT), None).unwrap();
        slot.reclaim().unwrap();
        slot.account().used()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn number_from(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn seed() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64);
    number_from("REEF_TEST_SEED", now)
}

fn ended(child: Child, what: &str) {
    let output = wait(child, what);
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{what}: {said:?}");
}

#[test]
fn random_programs_never_exceed_their_limit() {
    let (job, seed, cases) = (Job::new("random"), seed(), number_from("REEF_TEST_CASES", 600));
    println!("REEF_TEST_SEED={seed}: {cases} programs");
    let children: Vec<_> = (0..3).map(|at| job.start(seed.wrapping_add(at), cases / 3)).collect();
    children.into_iter().for_each(|child| ended(child, &format!("REEF_TEST_SEED={seed}")));
    let peak = job.peak();
    assert!(peak <= LIMIT, "REEF_TEST_SEED={seed}: {peak} of {LIMIT}");
    assert!(peak > LIMIT / 4 * 3, "REEF_TEST_SEED={seed}: {peak}, so nothing was tried");
    assert_eq!(job.used(), 0, "REEF_TEST_SEED={seed}");
}

/// Waits until a process has written that it has begun, which it does with all of its limit taken.
fn begun(job: &Job, child: &Child) {
    let (begin, file) = (Instant::now(), job.folder.join(format!("begun-{}", child.id())));
    while !file.exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{file:?} isn't there");
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
}

#[test]
fn killed_process_returns_its_memory_to_its_job() {
    let job = Job::new("killed");
    for round in 0..3 {
        let mut hoarder = job.command("loader::limits::program::hoards");
        let mut child = piped(hoarder.env(program::BEGUN, &job.folder));
        begun(&job, &child);
        // Another process gets nothing while this one lives, and all once it has been killed.
        let all = |wants: &str| {
            let mut command = job.command("loader::limits::program::takes_all");
            ended(piped(command.env(program::WANTS, wants)), &format!("round {round}, {wants}"));
        };
        all("nothing");
        child.kill().unwrap();
        all("everything"); // not waited for: a zombie counts as ended too
        child.wait().unwrap();
    }
    assert!(job.peak() <= LIMIT, "{} of {LIMIT}", job.peak());
    assert_eq!(job.used(), 0);
}

#[test]
fn random_kills_leave_other_processes_within_their_limit() {
    let (job, seed) = (Job::new("kills"), seed());
    let mut random = seed;
    let mut children: Vec<_> =
        (0..3).map(|at| job.start(seed.wrapping_add(at), 1_000_000)).collect();
    for round in 0..number_from("REEF_KILLS", 6) {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // sleep: any length is right
        std::thread::sleep(Duration::from_micros((random >> 40) % 60_000));
        let child = &mut children[(random >> 33) as usize % 3];
        assert!(child.try_wait().unwrap().is_none(), "REEF_TEST_SEED={seed}: ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        *child = job.start(seed.wrapping_add(3 + round), 1_000_000);
    }
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let peak = job.peak();
    assert!(peak <= LIMIT, "REEF_TEST_SEED={seed}: {peak} of {LIMIT}");
    assert_eq!(job.used(), 0, "REEF_TEST_SEED={seed}");
}

/// Runs a child. Returns whether it succeeded, and its stderr.
fn run(command: &mut Command, what: &str) -> (bool, String) {
    let output = wait(piped(command), what);
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The lines of ours.
fn ours(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.starts_with("reef: ")).collect()
}

fn exists(path: &Path) -> bool {
    path.exists()
}
