//! Costs of the shim, on a driver whose calls cost next to nothing:
//!
//!     cargo test --release -p reef-shim --test integration costs::of_all -- --ignored --nocapture

use super::processes::{registry, start_at_once};
use crate::common::{self, Driver, FAKE, SHIM, Work, call, library};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Library that the program below opens.
const OPENS: &str = "REEF_TEST_OPENS";
/// Calls in a round, shorter than a turn on the processor, and rounds; the fastest counts.
const CALLS: u32 = 10_000;
const ROUNDS: usize = 300;
/// Processes of each kind, in turns; the fastest counts.
const TURNS: usize = 3;

/// Nanoseconds of a call.
fn time(mut call: impl FnMut()) -> f64 {
    let round = |_| {
        let begin = Instant::now();
        (0..CALLS).for_each(|_| call());
        begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// Says what a call that is passed on and a launch cost.
#[test]
#[ignore = "is a program that another test runs"]
fn program() {
    let driver = Driver::open(&PathBuf::from(std::env::var_os(OPENS).unwrap()));
    let mut version = 0_usize;
    assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(1))), (0, 0));
    let Work { stream, memory, mix } = driver.work(8);
    let at = driver.symbol("cuDriverGetVersion").unwrap();
    // SAFETY: the function's argument is where an i32 goes.
    let get: unsafe extern "C" fn(*mut usize) -> u32 = unsafe { std::mem::transmute(at) };
    // SAFETY: `version` is a local of 8 bytes, where the function writes an `i32`.
    let jump = time(|| unsafe {
        get(&raw mut version);
    });
    let launcher = driver.launcher("cuLaunchKernel");
    let launch = time(|| {
        launcher.launch(mix, stream, memory, 1);
    });
    println!("costs: {jump:.2} {launch:.1}");
}

/// The two times of a process that opens this library, with this class or none.
fn costs(opens: &str, class: Option<(&str, &Path)>) -> (f64, f64) {
    let set =
        class.map(|(class, socket)| [("REEF_CLASS", class.into()), ("REEF_GUESTS", socket.into())]);
    costs_with(opens, set.iter().flatten().cloned().collect())
}

/// Measures with these variables.
fn costs_with(opens: &str, set: Vec<(&str, OsString)>) -> (f64, f64) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "loader::costs::program", "--include-ignored", "--nocapture"]);
    command
        .env(OPENS, library(opens))
        .env("REEF_CUDA", library(FAKE))
        .env("REEF_FAKE_INSTANT", "1");
    let output = command.envs(set).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.split_once("costs: ")?.1.split_once(' '));
    let (jump, launch) = line.unwrap_or_else(|| panic!("{said}"));
    (jump.parse().unwrap(), launch.parse().unwrap())
}

fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e6
}

#[test]
#[ignore = "measures"]
fn of_all() {
    let (_registry, path) = registry("costs");
    let kinds = [
        ("driver alone", FAKE, None),
        ("no class", SHIM, None),
        ("best-effort, open", SHIM, Some(("be", &*path))),
        ("real-time", SHIM, Some(("rt", &*path))),
    ];
    let mut best = [(f64::INFINITY, f64::INFINITY); 4];
    for _ in 0..TURNS {
        for (best, (_, opens, class)) in best.iter_mut().zip(kinds) {
            let (jump, launch) = costs(opens, class);
            *best = (best.0.min(jump), best.1.min(launch));
        }
    }
    for ((name, ..), (jump, launch)) in kinds.into_iter().zip(best) {
        let (jump_more, launch_more) = (jump - best[0].0, launch - best[0].1);
        println!(
            "{name}: passed-on call {jump:.2} ns ({jump_more:+.2}), launch {launch:.1} ns ({launch_more:+.1})"
        );
    }
    for count in [1, 100] {
        let plain = median(start_at_once(count, FAKE, None));
        let shim = median(start_at_once(count, SHIM, Some(&path)));
        println!(
            "open and cuInit, {count} at once: {plain:.2} ms alone, {shim:.2} ms with the shim (p50)"
        );
    }
}

/// Time that a profile adds to a launch, measured in turns; the fastest counts.
#[test]
#[ignore = "measures"]
fn of_a_profile() {
    let kinds = ["", "v1", "table", "table,trace"];
    let trace = std::env::temp_dir().join(format!("reef-costs-{}.json", std::process::id()));
    let mut best = [f64::INFINITY; 4];
    for _ in 0..TURNS {
        for (best, kind) in best.iter_mut().zip(kinds) {
            let logs = std::env::temp_dir().join(format!("reef-costs-{}", std::process::id()));
            let set = vec![
                ("REEF_PROFILE", kind.into()),
                ("PFLOG", if kind == "v1" { logs.clone().into() } else { OsString::new() }),
                ("REEF_PROFILE_TRACE", trace.clone().into()),
            ];
            *best = best.min(costs_with(SHIM, set).1);
            let _ = std::fs::remove_dir_all(&logs);
        }
    }
    let _ = std::fs::remove_file(&trace);
    for (kind, launch) in kinds.into_iter().zip(best) {
        println!("profile {kind:?}: launch {launch:.1} ns ({:+.1})", launch - best[0]);
    }
}

/// Time that a limit of time adds to a launch, measured in turns; the fastest counts.
#[test]
#[ignore = "measures"]
fn of_a_limit() {
    let accounts = std::env::temp_dir().join(format!("reef-costs-accounts-{}", std::process::id()));
    let mut best = [f64::INFINITY; 2];
    for _ in 0..TURNS {
        for (best, part) in best.iter_mut().zip(["", "100%"]) {
            let set =
                vec![("REEF_COMPUTE", part.into()), ("REEF_ACCOUNTS", accounts.clone().into())];
            *best = best.min(costs_with(SHIM, set).1);
        }
    }
    let _ = std::fs::remove_dir_all(&accounts);
    println!(
        "launch {:.1} ns, with a limit {:.1} ns ({:+.1})",
        best[0],
        best[1],
        best[1] - best[0]
    );
}
