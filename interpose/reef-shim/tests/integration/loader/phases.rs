//! Real-time phases of a best-effort program, which begins and ends them itself.

use super::processes::piped;
use crate::common::{self, Driver, FAKE, SOON, UUID, Work, call, library, until};
use reef_guest::join::{GuestInfo, JoinRequest, Joined, join, join_as};
use reef_guest::page::Class;
use reef_guest::registry::{GuestView, Registry, Rules};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time without work after which a real-time program in a phase releases others.
const PHASE_PAUSE: Duration = Duration::from_millis(20);

/// Does what it reads, line by line, and answers each line with a number.
#[test]
#[ignore = "is a program that other tests run"]
fn obeys() {
    let driver = Driver::begin();
    let Work { stream, memory, mix } = driver.work(64);
    for line in std::io::stdin().lines() {
        let answer = match line.unwrap().as_str() {
            "launch" => {
                assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, 1), 0);
                call!(driver, cuStreamSynchronize(stream))
            }
            "begin" => call!(driver, reef_guest_begin_phase()),
            "end" => call!(driver, reef_guest_end_phase()),
            "yield" => call!(driver, reef_guest_yield()),
            "class" => call!(driver, reef_guest_class()),
            "held" => call!(driver, reef_guest_is_held()),
            "phases" => call!(driver, reef_guest_phases()),
            "why" => {
                let at = driver.symbol("reef_guest_why").unwrap();
                // SAFETY: a function without arguments, whose text stays until the next refusal.
                let why = unsafe {
                    let why: unsafe extern "C" fn() -> *const libc::c_char =
                        std::mem::transmute(at);
                    std::ffi::CStr::from_ptr(why()).to_string_lossy().into_owned()
                };
                println!("\n= {why}");
                continue;
            }
            "thread" => {
                std::thread::spawn(move || call!(driver, reef_guest_begin_phase())).join().unwrap()
            }
            "fork" => fork(driver),
            other => panic!("{other}"),
        };
        println!("\n= {answer}");
    }
}

/// Returns what a child process got from `begin` and `end`, as two digits of base 100.
fn fork(driver: Driver) -> u32 {
    // SAFETY: the child calls functions of ours that take no lock there, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let begun = call!(driver, reef_guest_begin_phase());
        let ended = call!(driver, reef_guest_end_phase());
        // SAFETY: ends the child alone.
        unsafe { libc::_exit((100 * ended + begun) as i32) };
    }
    let mut status = 0;
    // SAFETY: the child of above, and a number of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WEXITSTATUS(status) as u32
}

/// A process that obeys, and a best-effort guest of this one.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    registry: Registry,
    /// True if phases are granted.
    granted: Arc<AtomicBool>,
    path: PathBuf,
    peer: Joined,
}

impl Program {
    fn start(name: &str, class: &str) -> Self {
        let path = std::env::temp_dir().join(format!("reef-phases-{name}-{}", std::process::id()));
        let granted = Arc::new(AtomicBool::new(true));
        let registry = registry_at(&path, &granted);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "loader::phases::obeys", "--include-ignored", "--nocapture"]);
        command.env("REEF_CUDA", library(FAKE)).env("REEF_GUESTS", &path).env("REEF_CLASS", class);
        command.env("REEF_JOB", "team").stdin(Stdio::piped());
        let mut child = piped(&mut command);
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let peer = best_effort(&path);
        Self { child, input, output: BufReader::new(output), registry, granted, path, peer }
    }

    fn text(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        while !answer.starts_with("= ") {
            answer.clear();
            assert_ne!(self.output.read_line(&mut answer).unwrap(), 0, "{line}: no answer");
        }
        answer[2..].trim_end().to_owned()
    }

    fn says(&mut self, line: &str) -> u32 {
        self.text(line).parse().unwrap()
    }

    /// Launches until it has joined; a busy machine may be late.
    fn join(&mut self) {
        until("joined", || self.says("launch") == 0 && self.says("class") != 0);
    }

    fn is_closed(&self) -> bool {
        self.peer.page.holders.is_closed()
    }

    fn of_program(&self) -> Vec<GuestView> {
        let pid = self.child.id();
        self.registry.guests().into_iter().filter(|view| view.who.pid == pid).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// A daemon that grants phases while `granted` is true.
fn registry_at(path: &Path, granted: &Arc<AtomicBool>) -> Registry {
    let _ = std::fs::remove_file(path);
    let right = granted.clone();
    let rules = Rules { hold_timeout: Duration::from_secs(60), ..Rules::default() };
    let policy = move |caller: &reef_guest::registry::Caller, wish: &JoinRequest| {
        let is_refused = caller.info.is_for_phases() && !right.load(Relaxed);
        if is_refused { Err("phases are not granted".to_owned()) } else { Ok(wish.class) }
    };
    Registry::open_with(path, rules, Box::new(policy)).unwrap()
}

fn best_effort(path: &Path) -> Joined {
    join(path, &JoinRequest { class: Class::BestEffort, device: UUID }, SOON).unwrap()
}

#[test]
fn phase_holds_others_until_its_end_and_never_itself() {
    let mut program = Program::start("held", "be");
    program.join();
    assert_eq!((program.says("class"), program.says("phases")), (1, 0));
    let (wish, team) = (JoinRequest { class: Class::BestEffort, device: UUID }, "team");
    let mate = join_as(&program.path, &wish, &GuestInfo::new(team, "").unwrap(), SOON).unwrap();
    for _ in 0..3 {
        assert_eq!((program.says("begin"), program.says("phases")), (0, 1));
        until("held", || program.is_closed());
        let newcomer = best_effort(&program.path);
        until("the newcomer is held", || newcomer.page.holders.is_closed());
        // It works, and no pause between launches ends the hold.
        for _ in 0..5 {
            assert_eq!((program.says("launch"), program.says("held")), (0, 0));
            std::thread::sleep(Duration::from_millis(5)); // sleep: a pause between launches
            assert!(program.is_closed(), "the phase lasts");
            assert!(!mate.page.holders.is_closed(), "it may wait for the program of its job");
        }
        assert_eq!((program.says("end"), program.says("phases")), (0, 0));
        until("released", || !program.is_closed() && !newcomer.page.holders.is_closed());
        assert_eq!(program.says("launch"), 0);
        assert!(!program.is_closed(), "best-effort again");
    }
    // The program has a guest for its phases, and one of its own, which no phase held.
    let views = program.of_program();
    let held = |class| views.iter().find(|view| view.who.class == class).map(|view| view.held);
    assert_eq!((views.len(), held(Class::BestEffort)), (2, Some(Duration::ZERO)), "{views:?}");
}

#[test]
fn phases_nest_and_threads_share_them() {
    let mut program = Program::start("nested", "be");
    program.join();
    assert_eq!((program.says("begin"), program.says("begin"), program.says("thread")), (0, 0, 0));
    assert_eq!(program.says("phases"), 3);
    for left in [2, 1] {
        assert_eq!((program.says("end"), program.says("phases")), (0, left));
        assert_eq!(program.says("launch"), 0);
        until("held", || program.is_closed());
    }
    assert_eq!(program.says("end"), 0);
    until("released", || !program.is_closed());
    assert_eq!(program.says("end"), libc::EINVAL as u32, "none has begun");
    // After a while the daemon knows it as a best-effort program alone, until its next phase.
    assert_eq!(program.of_program().len(), 2);
    until("best-effort alone", || program.of_program().len() == 1);
    assert_eq!((program.says("begin"), program.of_program().len()), (0, 2));
    until("held", || program.is_closed());
}

#[test]
fn phase_passes_its_own_gates_and_waits_there_afterwards() {
    let mut program = Program::start("own", "be");
    program.join();
    let wish = JoinRequest { class: Class::RealTime, device: UUID };
    let other = join(&program.path, &wish, SOON).unwrap();
    assert!(other.page.activity.hold());
    until("held by another program", || program.says("held") == 1);
    assert_eq!((program.says("begin"), program.says("held")), (0, 0));
    std::thread::sleep(Duration::from_millis(1200)); // sleep: longer than until a starvation relief
    assert_eq!((program.says("held"), program.says("launch")), (0, 0));
    assert_eq!((program.says("end"), program.says("held")), (0, 1));
    assert!(program.is_closed(), "the other one holds");
    assert!(other.page.activity.release(other.page.activity.pulse()));
    until("released", || program.says("held") == 0 && !program.is_closed());
}

#[test]
fn yield_releases_others_until_the_next_launch() {
    let mut program = Program::start("yield", "be");
    program.join();
    assert_eq!((program.says("begin"), program.says("launch")), (0, 0));
    until("held", || program.is_closed());
    program.says("yield");
    until("released", || !program.is_closed());
    assert_eq!((program.says("phases"), program.says("launch")), (1, 0));
    until("held again", || program.is_closed());
    assert_eq!(program.says("end"), 0);
    until("released", || !program.is_closed());
}

#[test]
fn phase_without_the_right_changes_nothing() {
    let mut program = Program::start("refused", "be");
    program.granted.store(false, Relaxed);
    program.join();
    for _ in 0..2 {
        assert_eq!(program.says("begin"), libc::EPERM as u32);
        assert_eq!(program.text("why"), "phases are not granted");
        assert_eq!((program.says("phases"), program.says("launch")), (0, 0));
        assert_eq!(program.says("end"), libc::EINVAL as u32);
        assert_eq!((program.is_closed(), program.of_program().len()), (false, 1));
    }
    program.granted.store(true, Relaxed);
    assert_eq!(program.says("begin"), 0);
    until("held", || program.is_closed());
}

/// Each ends what the program holds.
#[test]
fn killed_program_and_revoked_right_hold_nothing() {
    let mut program = Program::start("killed", "be");
    program.join();
    assert_eq!(program.says("begin"), 0);
    until("held", || program.is_closed());
    let views = program.of_program();
    let phase = views.iter().find(|view| view.who.class == Class::RealTime).unwrap();
    program.registry.revoke(phase.who.guest);
    assert!(!program.is_closed());
    assert_eq!((program.says("launch"), program.says("end")), (0, 0));
    until("a new right", || {
        let has_begun = program.says("begin") == 0 && program.of_program().len() == 2;
        let _ = has_begun || program.says("end") == 0; // the end of the old one was not seen yet
        has_begun
    });
    until("held", || program.is_closed());
    program.child.kill().unwrap();
    until("released", || !program.is_closed());
}

#[test]
fn child_process_neither_begins_nor_ends_a_phase() {
    let mut program = Program::start("forked", "be");
    program.join();
    assert_eq!(program.says("begin"), 0);
    until("held", || program.is_closed());
    assert_eq!(program.says("fork"), libc::ENODEV as u32, "no begin, and an end without effect");
    assert_eq!((program.is_closed(), program.says("phases")), (true, 1));
    assert_eq!(program.says("end"), 0);
    until("released", || !program.is_closed());
}

/// Without a daemon it passes its gates anyway; with the next one it would never wait there.
#[test]
fn phase_that_outlives_its_daemon_ends_at_its_end() {
    let mut program = Program::start("outlives", "be");
    program.join();
    assert_eq!(program.says("begin"), 0);
    let elsewhere = program.path.with_extension("elsewhere");
    program.registry = registry_at(&elsewhere, &program.granted); // its own one ends
    until("without a daemon", || program.says("class") == 0);
    assert_eq!((program.says("end"), program.says("phases")), (0, 0));
    program.registry = registry_at(&program.path, &program.granted);
    let wish = JoinRequest { class: Class::RealTime, device: UUID };
    let other = join(&program.path, &wish, SOON).unwrap();
    assert!(other.page.activity.hold());
    until("held by another program", || program.says("held") == 1);
}

/// An engine chooses and sends a token between the launches of two.
#[test]
fn phase_of_a_real_time_program_holds_others_between_launches() {
    let mut program = Program::start("between", "rt");
    program.join();
    assert_eq!(program.says("begin"), 0);
    until("a pause that a busy machine doesn't make longer", || {
        until("released", || !program.is_closed());
        let begin = Instant::now();
        assert_eq!(program.says("launch"), 0);
        while !program.is_closed() && begin.elapsed() < PHASE_PAUSE {} // the daemon may be late
        std::thread::sleep(PHASE_PAUSE / 4); // sleep: a pause between launches
        let is_closed = program.is_closed();
        let is_in_time = begin.elapsed() < PHASE_PAUSE;
        assert!(is_closed || !is_in_time, "the phase lasts");
        is_in_time
    });
    assert_eq!((program.says("end"), program.says("phases")), (0, 0));
    until("released", || !program.is_closed());
}

#[test]
fn phase_of_an_unscheduled_or_real_time_program_is_no_error() {
    let mut program = Program::start("real-time", "rt");
    program.join();
    assert_eq!(program.says("class"), 2);
    until("idle", || !program.is_closed());
    assert_eq!((program.says("begin"), program.says("end")), (0, 0));
    assert!(!program.is_closed(), "it holds others from its first launch on");
    let mut program = Program::start("no-daemon", "be");
    let (none, _) = (program.says("class"), program.path.exists());
    assert_eq!(none, 0, "nothing was launched");
    assert_eq!(program.says("end"), libc::EINVAL as u32);
}
