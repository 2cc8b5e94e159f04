//! Random programs in processes of their own: real-time, spawned, and forked before the driver is
//! first called.

use super::{Outcome, held_at_random, one_at_a_time, program, run, seeds};
use crate::common::{self, Driver, FAKE, SHIM, UUID, call, library};
use reef_guest::join::{JoinRequest, join};
use reef_guest::page::Class;
use reef_guest::registry::Registry;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Task of the program below: its number, with the shim or without, in a child process or not.
const ORDER: &str = "REEF_TEST_ORDER";
/// Longer than a process may take for its program.
const LIMIT: Duration = Duration::from_secs(90);

#[test]
#[ignore = "is a program that other tests run"]
fn run_as_told() {
    let order = std::env::var(ORDER).unwrap();
    let [seed, library_name, way] = order.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{order}")
    };
    let driver = Driver::open(&library(library_name));
    // SAFETY: ends this process if it takes too long.
    let limit = || unsafe { libc::alarm(LIMIT.as_secs() as u32) };
    if way == "forked" {
        // SAFETY: this thread goes on in the child; the harness's other thread holds nothing that
        // it needs.
        let child = unsafe { libc::fork() };
        if child != 0 {
            let mut status = 0;
            // SAFETY: a child of this process, which ends in time.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0);
            // The parent's first call comes after the child's.
        }
    }
    limit();
    assert_eq!(call!(driver, cuInit(0)), 0);
    let outcome = run(driver, &program(seed.parse().unwrap()), &order);
    println!("outcome: {}", digest(&outcome));
    // SAFETY: ends the process without the harness, which a child has no use of.
    unsafe { libc::_exit(0) };
}

/// Small enough to be printed, and different if anything is.
fn digest(outcome: &Outcome) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    outcome.hash(&mut hasher);
    let codes: usize = outcome.0.iter().map(Vec::len).sum();
    format!("{:016x} of {codes} codes", hasher.finish())
}

/// Runs a program in a process, and says what it and its child came to.
fn outcomes(seed: u64, library_name: &str, way: &str, class: &str, socket: &Path) -> Vec<String> {
    let order = format!("{seed} {library_name} {way}");
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(this);
    command.args(["--exact", "processes::run_as_told", "--include-ignored", "--nocapture"]);
    command.env("REEF_CUDA", library(FAKE)).env("REEF_FAKE_QUEUE", "200");
    command.env("REEF_GUESTS", socket).env("REEF_CLASS", class).env(ORDER, &order);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{order}: no end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let outcome = |line: &str| line.split_once("outcome: ").map(|(_, outcome)| outcome.to_owned());
    let found: Vec<_> = said.lines().filter_map(outcome).collect();
    assert!(!found.is_empty(), "{order}: {said} {}", String::from_utf8_lossy(&output.stderr));
    found
}

#[test]
fn processes_of_both_classes_give_the_drivers_results() {
    let _one = one_at_a_time();
    let path = std::env::temp_dir().join(format!("reef-processes-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let registry = Registry::open(&path, Box::new(|_, wish| Ok(wish.class))).unwrap();
    let peer =
        join(&path, &JoinRequest { class: Class::BestEffort, device: UUID }, common::SOON).unwrap();
    for seed in seeds(2) {
        let plain = outcomes(seed, FAKE, "spawned", "be", &path);
        assert_eq!(plain.len(), 1);
        let real_time = outcomes(seed, SHIM, "spawned", "rt", &path);
        assert_eq!(real_time, plain, "REEF_TEST_SEED={seed}, real-time");
        let held = || outcomes(seed, SHIM, "forked", "be", &path);
        let held = held_at_random(&registry, seed, held);
        let both = [plain.clone(), plain].concat();
        assert_eq!(held, both, "REEF_TEST_SEED={seed}, best-effort, parent and child");
    }
    common::until("released", || !peer.page.holders.is_closed());
}
