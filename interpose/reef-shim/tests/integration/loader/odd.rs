//! Odd programs: each does what a program may do and few expect. It prints the same, and ends, with
//! the driver alone and under the shim while its gate closes and opens all the time.

#[path = "odd/system.rs"]
mod system;
#[path = "odd/work.rs"]
mod work;

use super::processes::{piped, registry, wait};
use crate::common::{self, Driver, FAKE, SHIM, UUID, Work, call, library};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Program, and library that it opens.
const WHICH: &str = "REEF_TEST_ODD";
const OPENS: &str = "REEF_TEST_OPENS";
/// A process that is not ended ends itself.
const LIFE: u32 = 60;

type Odd = fn(&Program) -> String;

const ALL: [(&str, Odd); 18] = [
    ("threads of 16 KiB that end while held", work::small_threads),
    ("contexts that end while held", work::contexts),
    ("a callback that unloads and launches", work::callback),
    ("a library that is closed", work::closed),
    ("another program in the same process", system::exec),
    ("children while other threads launch", system::forks),
    ("children that share memory until they run another program", system::spawns),
    ("signals while held", system::signals),
    ("look-ups of odd names, versions and flags", work::lookups),
    ("thousands of streams", work::streams),
    ("captures while held", work::captures),
    ("calls that are passed on", work::passed),
    ("calls that the driver refuses", work::refused),
    ("all files closed, and their numbers used", system::files),
    ("all files closed on an old system", system::old_files),
    ("no file left", system::no_files),
    ("no files to see and no environment", system::nowhere),
    ("an end while a thread waits", system::ends),
];

/// A program with a context, a stream, memory and a kernel.
struct Program {
    driver: Driver,
    work: Work,
}

impl Program {
    fn launch(&self) -> u32 {
        let Work { stream, memory, mix } = self.work;
        self.driver.launch("cuLaunchKernel", mix, stream, memory, 1)
    }

    fn launch_some(&self, count: u32) {
        (0..count).for_each(|_| assert_eq!(self.launch(), 0));
    }

    fn wait(&self) {
        assert_eq!(call!(self.driver, cuStreamSynchronize(self.work.stream)), 0);
    }

    /// Sum of all launches.
    fn value(&self) -> u64 {
        self.wait();
        // SAFETY: a word of the fake driver's, which is not written any more.
        unsafe { *(self.work.memory as *const u64) }
    }
}

#[test]
#[ignore = "is a program that another test runs"]
fn program() {
    // SAFETY: ends this process after some time, in any case.
    unsafe { libc::alarm(LIFE) };
    let which = std::env::var(WHICH).unwrap();
    let driver = Driver::open(&PathBuf::from(std::env::var_os(OPENS).unwrap()));
    assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(1))), (0, 0));
    let program = Program { driver, work: driver.work(8) };
    let (_, odd) = ALL.iter().find(|(name, _)| *name == which).unwrap();
    println!("odd: {}", odd(&program));
}

/// File in which the program's library reports.
fn report(which: &str) -> PathBuf {
    std::env::temp_dir().join(format!("reef-odd-{}-{which}", std::process::id()))
}

/// Neither of these costs the program its place: our files are not in its table.
fn check_report(which: &str) {
    let said = std::fs::read_to_string(report(which));
    let _ = std::fs::remove_file(report(which));
    if which.contains("all files closed") || which == "no file left" {
        let said = said.unwrap();
        let is_lost = ["reached", "gone", "no thread"].iter().any(|word| said.contains(word));
        assert!(said.contains("  daemon: ") && !is_lost, "{which}: {said}"); // it may be late
    }
}

/// Returns the program's output, on the driver or as a guest of the daemon at this socket.
fn says(which: &str, opens: &str, class: &str, socket: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "loader::odd::program", "--include-ignored", "--nocapture"]);
    command.env(WHICH, which).env(OPENS, library(opens)).env("REEF_EXPLAIN", report(which));
    command.env("REEF_CUDA", library(FAKE)).env("REEF_GUESTS", socket).env("REEF_CLASS", class);
    if which.contains("thousands") {
        command.env("REEF_FAKE_INSTANT", "1"); // its device looks at all streams for each operation
    }
    let output = wait(piped(&mut command), which);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find_map(|line| line.split_once("odd: ").map(|(_, line)| line.into()));
    assert!(
        output.status.success() && line.is_some(),
        "{which}: {:?}: {said} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    line.unwrap()
}

#[test]
fn odd_programs_do_the_same_while_their_gates_open_and_close() {
    let (registry, socket) = registry("odd");
    let (is_over, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (next, run_in) = (&next, &socket);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                registry.hold(UUID, true);
                std::thread::sleep(Duration::from_millis(2)); // sleep: length of a hold
                registry.hold(UUID, false);
                std::thread::sleep(Duration::from_millis(1)); // sleep: pause between holds
            }
        });
        let run = move || {
            while let Some((which, _)) = ALL.get(next.fetch_add(1, SeqCst)) {
                let begin = Instant::now();
                let plain = says(which, FAKE, "", run_in);
                for class in ["be", "rt"] {
                    assert_eq!(plain, says(which, SHIM, class, run_in), "{which}, {class}");
                    check_report(which);
                }
                println!("{which}: {:?}", begin.elapsed());
            }
        };
        let runs = [scope.spawn(run), scope.spawn(run), scope.spawn(run)].map(|run| run.join());
        is_over.store(true, SeqCst);
        assert!(runs.iter().all(Result::is_ok), "see above");
    });
}
