//! Limits of time, on a driver whose kernels take as long as they are told to.

use super::super::processes::{piped, registry, wait};
use super::{Job, UUID, ours, run};
use crate::common::{self, Driver, Work, call};
use reef_guest::limit::{AccountsFile, Audit, Slot};
use reef_guest::page::Time;
use reef_guest::registry::{GuestView, Registry};
use std::process::Child;
use std::time::{Duration, Instant};

/// Milliseconds for which the program below launches; zero: as many kernels as it has to wait for.
const LASTS: &str = "REEF_TEST_LASTS";
const PROGRAM: &str = "loader::limits::time::launches";

/// Launches kernels, waits for them now and then, and says how many of them it made in each
/// millisecond.
#[test]
#[ignore = "is a program that other tests run"]
fn launches() {
    let lasts = Duration::from_millis(std::env::var(LASTS).unwrap().parse().unwrap());
    let driver = Driver::begin();
    let Work { stream, memory, mix } = driver.work(8);
    let (begin, mut made) = (Instant::now(), 0);
    while begin.elapsed() < lasts || made < 60 {
        assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, made), 0);
        made += 1;
        if made % 30 == 0 {
            assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
        }
    }
    println!("per second: {}", made as f64 / begin.elapsed().as_secs_f64());
}

fn start(job: &Job, set: &[(&str, &str)]) -> Child {
    let mut command = job.command(PROGRAM);
    command.env_remove("REEF_MEMORY").env("REEF_FAKE_KERNEL_NS", "1000000");
    piped(command.envs(set.iter().copied()))
}

/// A part of the time is kept without a daemon: the program waits for it, and ends.
#[test]
fn a_program_waits_for_its_part_of_the_time_and_goes_on() {
    let job = Job::new("time");
    let set = [("REEF_COMPUTE", "20%"), (LASTS, "0"), ("REEF_EXPLAIN", "/dev/stderr")];
    let said = waits(&job, &set);
    assert!(said.contains("daemon: none; its part of the time is limited without one"), "{said}");
}

/// Runs the program, whose launches have to wait. Returns what it says.
fn waits(job: &Job, set: &[(&str, &str)]) -> String {
    let output = wait(start(job, set), PROGRAM);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let waits = said.split_once("waits for its part of the time ");
    let waits = waits.and_then(|(_, rest)| rest.lines().next()?.parse::<u64>().ok());
    assert!(waits.is_some_and(|waits| waits > 0), "{said}");
    said
}

/// A check that runs kernels again would not be charged, so it is not made.
#[test]
fn time_of_a_program_to_be_checked_is_limited() {
    let job = Job::new("checked");
    let file = job.folder.join("found");
    let set = [("REEF_COMPUTE", "20%"), (LASTS, "0"), ("REEF_EXPLAIN", "/dev/stderr")];
    let checked = [("REEF_RERUN", file.to_str().unwrap())];
    let said = waits(&job, &[&set[..], &checked[..]].concat());
    assert_eq!(ours(&said), ["reef: REEF_RERUN has no effect on a program with a limit of time"]);
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
}

/// It has a page before a daemon has answered, is held like others within its part, and goes on
/// under the next daemon.
#[test]
fn limited_program_is_held_and_outlives_its_daemon() {
    let (job, (registry, socket)) = (Job::new("guest"), registry("limited-guest"));
    let set =
        [("REEF_COMPUTE", "60%"), (LASTS, "100000"), ("REEF_GUESTS", socket.to_str().unwrap())];
    let mut child = start(&job, &set);
    // A thread that waits for its stream launches nothing while it is held, and has a starvation
    // relief at last.
    let counted =
        |guest: &GuestView| (guest.kernels, guest.gates, guest.delayed + guest.starvation_reliefs);
    let counts = |registry: &Registry| registry.guests().first().map_or((0, 0, 0), counted);
    until("a guest with gates", || counts(&registry).1 > 0);
    registry.hold(UUID, true);
    until("that it is held", || counts(&registry).2 > 0);
    registry.hold(UUID, false);
    drop(registry);
    let registry = Registry::open(&socket, Box::new(|_, wish| Ok(wish.class))).unwrap();
    until("the next daemon's guest", || counts(&registry).0 > 0);
    let before = counts(&registry).0;
    until("more kernels", || counts(&registry).0 > before + 50);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Launches a long kernel and waits for it; then, unless it lasts for no time, one more from each
/// of several threads. Says how long the first launch waited, or the time from its begin until the
/// next one was made. The process ends with the others waiting.
#[test]
#[ignore = "is a program that other tests run"]
fn launches_long_kernels() {
    let driver = Driver::begin();
    let Work { stream, memory, mix } = driver.work(8);
    let begin = Instant::now();
    assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, 0), 0);
    let waited = begin.elapsed();
    assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    if std::env::var(LASTS).is_ok_and(|lasts| lasts == "0") {
        return println!("waited: {}", waited.as_millis());
    }
    let (say, said) = std::sync::mpsc::channel();
    for seed in 1..9 {
        let say = say.clone();
        std::thread::spawn(move || {
            assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
            assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, seed), 0);
            let _ = say.send(begin.elapsed()); // the test may have ended
        });
    }
    println!("waited: {}", said.recv().unwrap().as_millis());
}

/// Returns the milliseconds that the last kernel of a program waited.
fn waited(job: &Job, kernel: u64, set: &[(&str, &str)]) -> u64 {
    let program = "loader::limits::time::launches_long_kernels";
    let mut command = job.command(program);
    command.env_remove("REEF_MEMORY").env("REEF_FAKE_KERNEL_NS", (kernel * 1_000_000).to_string());
    let output = wait(piped(command.envs(set.iter().copied())), program);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let waited = text.lines().find_map(|line| line.split_once("waited: ")?.1.parse().ok());
    waited.unwrap_or_else(|| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)))
}

/// A launch from any thread waits longer than the 10 s after which a broken schedule is passed.
#[test]
fn debt_of_a_long_kernel_is_waited_for_in_all_threads() {
    let waited = waited(&Job::new("debt"), 600, &[("REEF_COMPUTE", "5%")]);
    assert!((11_000..40_000).contains(&waited), "{waited} ms of 12,000");
}

/// Launches where the system opens no more files, so that there is no page. Says the code.
#[test]
#[ignore = "is a program that other tests run"]
fn launches_without_files() {
    let driver = Driver::begin();
    let Work { stream, memory, mix } = driver.work(8);
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a struct that lives during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
    println!("launched: {}", driver.launch("cuLaunchKernel", mix, stream, memory, 0));
}

/// A launch that can't be measured is not made.
#[test]
fn launch_is_refused_if_its_time_can_not_be_measured() {
    let (job, program) = (Job::new("unmeasured"), "loader::limits::time::launches_without_files");
    let launched = |part: &[(&str, &str)]| {
        let mut command = job.command(program);
        command.env_remove("REEF_MEMORY").envs(part.iter().copied());
        let output = wait(piped(&mut command), program);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = text.lines().find_map(|line| line.split_once("launched: ")?.1.parse().ok());
        let code: u32 = code.unwrap_or_else(|| panic!("{text} {said}"));
        (code, ours(&said).len())
    };
    assert_eq!(launched(&[]), (0, 0), "without a limit");
    assert_eq!(launched(&[("REEF_COMPUTE", "20%")]), (800, 1));
}

#[test]
fn real_time_program_without_a_daemon_keeps_its_part() {
    let (job, nowhere) = (Job::new("alone"), "/nowhere/guests.sock");
    let set = [("REEF_COMPUTE", "10%"), ("REEF_CLASS", "rt"), ("REEF_GUESTS", nowhere)];
    let waited = waited(&job, 200, &set);
    assert!(waited >= 1_800, "{waited} ms of 2,000");
}

/// A process that ends after each kernel has no more time than one that stays.
#[test]
fn debt_of_a_named_job_waits_for_its_next_process() {
    let job = Job::new("again");
    let set = |name| [("REEF_COMPUTE", "10%"), ("REEF_JOB", name), (LASTS, "0")];
    assert!(waited(&job, 700, &set("again")) < 3_000, "no debt");
    let begin = Instant::now();
    assert!(waited(&job, 700, &set("another")) < 3_000, "no debt of its own");
    let waited = waited(&job, 700, &set("again"));
    // Processes of a busy machine may take that long to start.
    let passed = begin.elapsed();
    assert!(passed >= Duration::from_secs(4), "{passed:?} of 7 s until it has run again");
    assert!(waited < 30_000, "{waited} ms of 6,300 less two starts");
}

#[test]
fn invalid_part_of_the_time_is_refused() {
    let job = Job::new("part");
    let mut command = job.command("loader::limits::told::asks");
    let (_, text) = run(command.env("REEF_COMPUTE", "half"), "half");
    assert_eq!(
        ours(&text),
        ["reef: REEF_COMPUTE=half: not a share of 1% to 100%: the device is refused"]
    );
}

/// Kernels a second, as the program said at its end.
fn rate(child: Child) -> f64 {
    let output = wait(child, PROGRAM);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = text.lines().find_map(|line| line.split_once("per second: ")?.1.parse().ok());
    rate.unwrap_or_else(|| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)))
}

/// Runs programs at once. Returns the outputs of all of them: all have to end.
fn at_once(job: &Job, sets: &[&[(&str, &str)]]) -> Vec<f64> {
    let children: Vec<_> = sets.iter().map(|set| start(job, set)).collect();
    children.into_iter().map(rate).collect()
}

#[test]
fn programs_that_take_turns_all_end() {
    let job = Job::new("turns");
    let set = |name, part| [("REEF_JOB", name), ("REEF_COMPUTE", part), (LASTS, "0")];
    // Two of one job, and another one.
    at_once(&job, &[&set("a", "30%"), &set("a", "30%"), &set("b", "70%")]);
}

/// Both want the device all the time, and one has work on it at a time: seen from outside, in the
/// accounts.
#[test]
fn one_of_the_programs_that_take_turns_works_at_a_time() {
    let job = Job::new("one");
    let set = |name| [("REEF_JOB", name), ("REEF_COMPUTE", "50%"), (LASTS, "100000")];
    let mut children = [start(&job, &set("a")), start(&job, &set("b"))];
    let file = AccountsFile::open(&job.accounts(), &UUID).unwrap();
    let slot = Slot::join(file, "REEF_JOB=watches", None, None).unwrap();
    let mut audit = Audit::new(job.accounts());
    until("that both have worked", || {
        let _ = audit.refresh();
        audit.jobs().iter().filter(|job| job.ran > Duration::from_millis(50)).count() == 2
    });
    let mut seen = [0; 3];
    while seen.iter().sum::<u32>() < 2_000 {
        seen[slot.account().other_workers(Time::now().0).min(2) as usize] += 1;
        // sleep: pace of the polls, which are counted
        std::thread::sleep(Duration::from_micros(200));
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // A watchdog that the system doesn't run for long counts as gone, and its work is still there:
    // on a busy machine both are at work at times. Without turns they always are.
    assert!(seen[1] > 500 && seen[1] > seen[2], "none, one, two at work: {seen:?}");
}

/// Without others it has the turn all the time, and it is stopped with it.
#[test]
fn stopped_program_does_not_keep_its_turn() {
    let job = Job::new("stopped");
    let set = |name, lasts| [("REEF_JOB", name), ("REEF_COMPUTE", "100%"), (LASTS, lasts)];
    let mut stopped = start(&job, &set("stopped", "100000"));
    let mut audit = Audit::new(job.accounts());
    until("that it works", || {
        let _ = audit.refresh(); // there may be no accounts file yet
        audit.jobs().iter().any(|job| job.ran > Duration::from_millis(20))
    });
    let signal = |signal| {
        // SAFETY: a child that wasn't waited for.
        assert_eq!(unsafe { libc::kill(stopped.id() as i32, signal) }, 0);
    };
    signal(libc::SIGSTOP);
    at_once(&job, &[&set("other", "0")]);
    signal(libc::SIGCONT);
    at_once(&job, &[&set("third", "0")]);
    stopped.kill().unwrap();
    stopped.wait().unwrap();
}

/// Throughput of a program by its limit, and of two at once, over its throughput without one.
///
/// `cargo test -p reef-shim --test integration limits::time::parts -- --ignored --nocapture`
#[test]
#[ignore = "measures: a machine that does nothing else"]
fn parts() {
    let job = Job::new("parts");
    let lasts = (LASTS, "5000");
    let alone = rate(start(&job, &[lasts]));
    println!("without a limit: {alone:.0} kernels of 1 ms a second");
    for percent in ["10", "30", "50", "70"] {
        let limited = rate(start(&job, &[lasts, ("REEF_COMPUTE", percent)]));
        println!("{percent} %: {:.1} %", 100.0 * limited / alone);
    }
    let set = |name, part| [("REEF_JOB", name), ("REEF_COMPUTE", part), lasts];
    let both = at_once(&job, &[&set("a", "30"), &set("b", "70")]);
    println!(
        "30 and 70 %: {:.1?} %",
        both.iter().map(|rate| 100.0 * rate / alone).collect::<Vec<_>>()
    );
}
