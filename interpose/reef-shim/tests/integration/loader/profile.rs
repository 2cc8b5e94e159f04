//! Files of a program's calls: Alnair's files to the last line, however the program ends; a table;
//! a trace.

#[path = "profile/odd.rs"]
mod odd;

use super::folder;
use super::processes::{piped, wait};
use crate::common::{self, Driver, FAKE, SHIM, Work, call, library};
use std::collections::{BTreeSet, HashMap};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

/// End of the program below: `return`, `exit`, `term` (which it doesn't handle), `twice` (in two
/// threads at once), `handled`, or `chained` (its handler calls the one that was there, and it goes
/// on). `early`: it calls before it initialises the driver. `memory`: it returns, with odd
/// allocations before. `range`: it returns, and launches twice as often as it says are worth a
/// profile.
const END: &str = "REEF_TEST_END";
/// More than are on their way at once.
const COPIES: usize = 5_000;
const LAUNCHES: usize = 300;

extern "C" fn leave(_signal: libc::c_int) {
    // SAFETY: the program's own way to end.
    unsafe { libc::exit(3) };
}

/// The handler that was there before `chain`.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn chain(signal: libc::c_int) {
    // SAFETY: an address that `sigaction` gave as a handler of this type.
    let before: extern "C" fn(libc::c_int) =
        unsafe { std::mem::transmute(BEFORE.load(Ordering::Relaxed)) };
    before(signal);
}

/// Puts `chain` before the handler that is there.
fn install_chain() {
    // SAFETY: structs of zeroes are values of this type, and a handler of this program's.
    unsafe {
        let (mut old, mut own): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        libc::sigaction(libc::SIGTERM, std::ptr::null(), &raw mut old);
        assert!(old.sa_sigaction != libc::SIG_DFL, "there is a handler");
        BEFORE.store(old.sa_sigaction, Ordering::Relaxed);
        own.sa_sigaction = chain as *const () as usize;
        libc::sigaction(libc::SIGTERM, &raw const own, std::ptr::null_mut());
    }
}

/// Allocates rows, which become longer, and memory whose end the shim doesn't see; says how much
/// there is, at most once at an address.
fn allocate_oddly(driver: Driver) {
    let (fake, mut addresses) = (Driver::open(&library(FAKE)), BTreeSet::new());
    let [mut at, mut pitch] = [0_usize; 2];
    assert_eq!(call!(driver, cuMemAllocPitch_v2(&raw mut at, &raw mut pitch, 100, 4, 4)), 0);
    let rows = 4 * pitch;
    for _ in 0..100 {
        assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut at, 1000)), 0);
        assert_eq!(call!(fake, cuMemFree_v2(at)), 0);
        addresses.insert(at);
    }
    println!("live: {}", rows + 1000 * addresses.len());
}

/// Two threads signal themselves at once.
fn signal_twice() -> i32 {
    let barrier = Barrier::new(2);
    let signal = || {
        barrier.wait();
        // SAFETY: a signal of this thread.
        unsafe { libc::raise(libc::SIGTERM) }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(signal);
        signal() | other.join().unwrap()
    })
}

/// Copies to and fro in two threads, and launches.
#[test]
#[ignore = "is a program that other tests run"]
fn program() {
    let driver = Driver::open(&library(SHIM));
    let host = [7_u64; 8];
    let from = host.as_ptr() as usize;
    let end = std::env::var(END).unwrap();
    if end == "early" {
        (0..COPIES).for_each(|_| {
            call!(driver, cuMemcpyDtoH_v2(from, from, 64));
        });
    }
    assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(1))), (0, 0));
    if end == "memory" {
        return allocate_oddly(driver);
    }
    let Work { stream, memory, mix } = driver.work(64);
    let copies = |count: usize| {
        assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
        (0..count).for_each(|_| assert_eq!(call!(driver, cuMemcpyHtoD_v2(memory, from, 64)), 0));
        assert_eq!(call!(driver, cuMemcpyHtoDAsync_v2(memory, from, 32, stream)), 0);
        assert_eq!(call!(driver, cuMemcpyDtoH_v2(from, memory, 16)), 0);
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| copies(COPIES));
        copies(1);
        thread.join().unwrap();
    });
    for _ in 0..LAUNCHES {
        assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, 7), 0);
    }
    assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    if end == "range" {
        for _ in 0..LAUNCHES {
            call!(driver, cuProfilerStart()); // missing in the fake driver, which doesn't matter
            assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, 7), 0);
            call!(driver, cuProfilerStop());
            assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, 7), 0);
        }
    }
    // SAFETY: signals of this process, and its end.
    unsafe {
        match end.as_str() {
            "exit" => libc::exit(5),
            "term" => libc::kill(libc::getpid(), libc::SIGTERM),
            "handled" => {
                libc::signal(libc::SIGTERM, leave as *const () as usize);
                libc::kill(libc::getpid(), libc::SIGTERM)
            }
            "chained" => {
                install_chain();
                libc::raise(libc::SIGTERM);
                copies(COPIES); // they are not written
                libc::exit(6)
            }
            "twice" => signal_twice(),
            _ => return,
        };
    }
    std::thread::sleep(std::time::Duration::from_secs(60)); // sleep: until the signal comes
}

fn run(end: &str, folder: &Path, set: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "loader::profile::program", "--include-ignored", "--nocapture"]);
    command.env("REEF_CUDA", library(FAKE)).env(END, end).current_dir(folder);
    wait(piped(command.envs(set.iter().copied())), end)
}

/// Counts and bursts by names, of version 1.
fn metrics(folder: &Path) -> HashMap<String, (u64, u64)> {
    let text = std::fs::read_to_string(folder.join("metrics.log")).unwrap();
    let values: Vec<_> = text.lines().map(|line| line.split_once(':').unwrap().1).collect();
    let entry = |of: &[&str]| (of[0].to_owned(), (of[1].parse().unwrap(), of[2].parse().unwrap()));
    values.chunks(3).map(entry).collect()
}

#[test]
fn files_of_alnair_have_every_call_however_a_program_ends() {
    let folder = folder("profile-ends");
    for (end, code, signal) in [
        ("return", Some(0), None),
        ("exit", Some(5), None),
        ("term", None, Some(libc::SIGTERM)),
        ("twice", None, Some(libc::SIGTERM)),
        ("handled", Some(3), None),
        ("chained", Some(6), None),
    ] {
        let place = folder.join(end).join("logs"); // is made
        std::fs::create_dir(folder.join(end)).unwrap();
        let output = run(end, &folder.join(end), &[("PFLOG", "logs")]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.status.signal()), (code, signal), "{end}: {said}");
        let metrics = metrics(&place);
        let counts = [
            ("cuInit", 1),
            ("cuMemAlloc", 1),
            ("cuMemFree", 0),
            ("cuLaunchKernel", LAUNCHES),
            ("cuMemcpyH2D", COPIES + 3),
            ("cuMemcpyD2H", 2),
            ("cuGetProcAddress", 0),
        ];
        for (name, count) in counts {
            assert_eq!(metrics[name].0, count as u64, "{end}: {name}: {metrics:?}");
        }
        let timeline = std::fs::read_to_string(place.join("timeline.log")).unwrap();
        for name in ["cuInit", "cuMemcpyH2D", "cuMemcpyD2H"] {
            let lines =
                timeline.lines().filter(|line| line.starts_with(&format!("name:{name} start:")));
            let bursts =
                lines.map(|line| line.rsplit_once("burst:").unwrap().1.parse::<u64>().unwrap());
            let sum = bursts.fold((0, 0), |(count, sum), burst| (count + 1, sum + burst));
            assert_eq!(sum, metrics[name], "{end}: {name}: lines are what was counted");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn later_versions_write_the_allocated_bytes() {
    let folder = folder("profile-versions");
    let workspace = folder.to_str().unwrap();
    let set = [("REEF_PROFILE", "v2"), ("ALNAIR_WORKSPACE_PATH", workspace)];
    assert!(run("return", &folder, &set).status.success());
    let text = std::fs::read_to_string(folder.join("test/metrics.log")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (11, "name:mem_used,count:64"));
    assert!(
        lines[5].starts_with(&format!("name:cuMemcpyH2D,count:{},burst:", COPIES + 1)),
        "{text}"
    );
    assert!(lines[8].starts_with("name:cuMemcpyH2D_ASYNC,count:2,burst:"), "{text}");
    let text = std::fs::read_to_string(folder.join("test/timeline.log")).unwrap();
    assert!(text.lines().any(|line| line.ends_with(", bytes:16, kind:2")), "{text}");
    assert!(run("return", &folder, &[("REEF_PROFILE", "v3"), set[1]]).status.success());
    let text = std::fs::read_to_string(folder.join("metrics.log")).unwrap();
    let behind = text.split_once('\n').unwrap().1;
    assert!(text.starts_with("pid:"), "{text}");
    assert_eq!(behind, format!("kernel-cnt:{LAUNCHES}\nmem-used:64\ntoken-cnt:{LAUNCHES}\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The words of a table's line that begins with this name.
fn row(said: &str, name: &str) -> Option<Vec<String>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    said.lines().map(words).find(|words| words.first().is_some_and(|of| of == name))
}

#[test]
fn a_table_is_said_and_a_trace_is_written_at_the_end() {
    let folder = folder("profile-table");
    let output = run("exit", &folder, &[("REEF_PROFILE", "table,trace")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let stopped = run("term", &folder, &[("REEF_PROFILE", "table")]);
    assert_eq!(String::from_utf8_lossy(&stopped.stderr).lines().count(), said.lines().count());
    let row = |name| row(&said, name).unwrap_or_else(|| panic!("{name}: {said}"));
    assert_eq!(row("cuLaunchKernel")[1], LAUNCHES.to_string());
    assert_eq!(row("mix")[1], LAUNCHES.to_string());
    assert_eq!(row("cuMemcpyHtoDAsync")[5..], ["64", "bytes"]);
    let text = std::fs::read_to_string(folder.join("reef-trace.json")).unwrap();
    let events = text.lines().filter(|line| line.starts_with("{\"ph\":\"X\""));
    let spans: Vec<_> = events.collect();
    // A span may be left out if no thread came to write for long, and then that is said.
    let dropped = text.split_once("\"dropped\":").unwrap().1.split('}').next().unwrap();
    let all = COPIES + LAUNCHES + 8;
    assert_eq!(spans.len() + dropped.parse::<usize>().unwrap(), all, "{}", &text[..200]);
    assert!(spans.iter().any(|span| span.contains("\"name\":\"mix\"")));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn unwritable_profile_is_one_line_and_the_program_continues() {
    let folder = folder("profile-wrong");
    let said = |set: &[(&str, &str)]| {
        let output = run("return", &folder, set);
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let ours: Vec<_> = said.lines().filter(|line| line.starts_with("reef: ")).collect();
        ours.join("\n")
    };
    let line = "reef: profile: REEF_PROFILE=v4: v4 isn't one of v1, v2, v3, table, trace, range";
    assert_eq!(said(&[("REEF_PROFILE", "v4")]), line);
    let line = said(&[("PFLOG", "/proc/nowhere")]);
    assert!(
        line.starts_with("reef: profile: /proc/nowhere: ") && line.lines().count() == 1,
        "{line}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
