//! `reef suspend`, `reef resume` and `reef move` on a driver made of functions, which suspends
//! processes as the real one does: calls of a locked process wait, managed memory is refused, and a
//! restore without memory loses the process.

use crate::common::daemon::{Daemon, metrics};
use crate::common::driver::{Driver, library};
use crate::common::{Folder, json, text};
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An unmodified program. Its first line of input is `plain`, `inside`, `first`, `managed` or
/// `nccl`, and MiB. It takes these, and prints the code if that is not 0. With `nccl` it has a
/// thread of the name that PyTorch gives one which watches NCCL. Then it launches kernels that add
/// 2 to a number until its input ends. The number of `inside` is the last of that memory, that of
/// `first` the first, and a thread copies it all the time. It prints how many it has launched
/// whenever a line comes, and at last whether the number is right. The line `fork` has it print
/// what a child process gets of the driver.
#[test]
#[ignore = "is a program that another test runs"]
fn program() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let (kind, mib) = line.trim().split_once(' ').unwrap();
    let mib: usize = mib.parse().unwrap();
    let driver = Arc::new(Driver::start());
    if kind == "nccl" {
        let (begin, begun) = std::sync::mpsc::channel();
        let watch = move || {
            begin.send(()).unwrap();
            loop {
                std::thread::park();
            }
        };
        let thread = std::thread::Builder::new().name("pt_nccl_watchdg".into());
        thread.spawn(watch).unwrap();
        begun.recv().unwrap();
    }
    println!("number {}", std::process::id());
    let allocated = match kind {
        "managed" => driver.allocate_managed(mib << 20),
        _ => driver.allocate(mib << 20),
    };
    let at = match allocated {
        Ok(at) => at,
        Err(code) => return println!("memory {code}"),
    };
    let sum = 0_u64;
    let is_inside = kind == "inside" || kind == "first";
    let to = match kind {
        "inside" => at + (mib << 20) - 8,
        "first" => at,
        _ => &raw const sum as usize,
    };
    if is_inside {
        let driver = driver.clone();
        std::thread::spawn(move || {
            driver.use_context();
            let mut last = 0;
            loop {
                let number = driver.read(to);
                assert!(number >= last, "{number} after {last}");
                last = number;
            }
        });
    }
    let add = driver.adder(to);
    let driver_of_children = driver.clone();
    let (asked, ask) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            match line.unwrap().as_str() {
                "fork" => println!("child {:?}", init_in_child(&driver_of_children)),
                line => asked.send(line.to_owned()).unwrap(),
            }
        }
    });
    let mut launched = 0_u64;
    loop {
        add(2);
        driver.synchronize();
        launched += 1;
        match ask.try_recv() {
            Ok(_) => println!("launched {launched}"),
            Err(std::sync::mpsc::TryRecvError::Empty) => {}
            Err(_) => break,
        }
    }
    let number = if is_inside {
        driver.read(to)
    } else {
        // SAFETY: the number of this function; its work has ended.
        unsafe { (&raw const sum).read_volatile() }
    };
    let is_right = number == 2 * launched;
    println!("right {is_right} after {launched}");
}

/// Returns the code of `cuInit` in a child process. `None`: the child was ended, because it waited.
fn init_in_child(driver: &Driver) -> Option<i32> {
    // SAFETY: the child makes a call that children may make, and ends; room for its status.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            libc::_exit(driver.init() as i32);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
    }
}

/// A machine of the tests: a folder, a driver, a management library.
struct Machine {
    folder: Folder,
    /// Time of a kernel on the device, in nanoseconds.
    kernel_ns: u64,
    /// Memory of the device. `None`: 1 GiB, whose owners [`used`](Self::used) sets.
    mib: Option<u64>,
    /// The `criu` that is found.
    criu: Option<String>,
    /// Words before the program that is started.
    through: Vec<String>,
}

struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pid: u32,
}

impl Machine {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let machine = Self { folder, kernel_ns: 0, mib: None, criu: None, through: Vec::new() };
        machine.used(&[]);
        machine
    }

    /// Sets the memory of processes that the management library reports, in MiB. The device has
    /// 1,024.
    fn used(&self, processes: &[(u32, u64)]) {
        let lines: String =
            processes.iter().map(|(pid, mib)| format!("{pid} {} 0\n", mib << 20)).collect();
        self.folder.file("nvml", lines);
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("REEF_CUDA", library("libfake_libcuda.so"))
            .env("REEF_SHIM", library("libreef_cuda_shim.so"))
            .env("REEF_NVML_LIBRARY", library("libfake_libnvml.so"))
            .env("REEF_FAKE_KERNEL_NS", self.kernel_ns.to_string())
            .env("REEF_FAKE_PROCESSES", self.folder.path("processes"))
            .env("REEF_FAKE_MEMORY", self.folder.path("memory"))
            .env("REEF_ACCOUNTS", self.folder.path("accounts"))
            .envs(self.criu.as_ref().map(|criu| ("REEF_CRIU", criu)));
        match self.mib {
            None => command.env("REEF_FAKE_NVML", self.folder.path("nvml")),
            Some(mib) => command.env("REEF_FAKE_BYTES", (mib << 20).to_string()),
        };
        command
    }

    /// Starts a daemon with guests.
    fn daemon(&self, options: &[&str]) -> Daemon {
        let set: Vec<(String, String)> = self
            .command("true")
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?.into(), value?.to_str()?.into())))
            .collect();
        let set: Vec<(&str, &str)> = set.iter().map(|(name, value)| (&**name, &**value)).collect();
        Daemon::start_in(&self.folder, &[&["--guests"], options].concat(), &set)
    }

    fn reef(&self, args: &[&str]) -> Output {
        let [first, rest @ ..] = args else { panic!("no command") };
        let mut command = self.command(env!("CARGO_BIN_EXE_reef"));
        command.args([*first, "--socket-dir", &self.folder.path("")]).args(rest).output().unwrap()
    }

    #[track_caller]
    fn refuses(&self, args: &[&str]) -> String {
        let output = self.reef(args);
        let said = text(&output.stderr).to_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{args:?}: {said}");
        said
    }

    #[track_caller]
    fn works(&self, args: &[&str]) -> serde_json::Value {
        let output = self.reef(&[args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        json(text(&output.stdout))
    }

    /// Starts the program with 64 MiB, under `reef exec` if there are options.
    fn start(&self, kind: &str, exec: Option<&[&str]>) -> Program {
        self.start_with(&format!("{kind} 64"), exec)
    }

    /// Starts the program, under `reef exec` if there are options.
    fn start_with(&self, what: &str, exec: Option<&[&str]>) -> Program {
        let this = std::env::current_exe().unwrap();
        let test = ["--exact", "suspend::program", "--include-ignored", "--nocapture"];
        let mut command = match exec {
            None => {
                // The loader finds the driver by its name.
                let libraries = self.folder.path("lib");
                std::fs::create_dir_all(&libraries).unwrap();
                let link = std::path::Path::new(&libraries).join("libcuda.so.1");
                let _ = std::os::unix::fs::symlink(library("libfake_libcuda.so"), link);
                let mut command = match &self.through[..] {
                    [] => self.command(this),
                    [first, rest @ ..] => {
                        let mut command = self.command(first);
                        command.args(rest).arg(this);
                        command
                    }
                };
                command.env("LD_LIBRARY_PATH", libraries);
                command
            }
            Some(options) => {
                let mut command = self.command(env!("CARGO_BIN_EXE_reef"));
                // With mounts of its own it could not be written to a folder.
                let never = ["--bind", "never"];
                command
                    .args(["exec", "--socket-dir", &self.folder.path("")])
                    .args(never)
                    .args(options);
                command.arg("--").args(&self.through).arg(this);
                command
            }
        };
        command.args(test).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{what}").unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let pid = lines
            .by_ref()
            .map(|line| line.unwrap())
            .find_map(|line| line.rsplit_once("number ").map(|(_, pid)| pid.parse().unwrap()));
        Program { child, lines, pid: pid.expect("its number") }
    }
}

impl Machine {
    /// Starts the program under `reef exec`, and waits until it works and its daemon has it: its
    /// launches pass a daemon that is late.
    fn start_guest(&self, what: &str, exec: &[&str]) -> Program {
        let mut program = self.start_with(what, Some(exec));
        program.answers();
        assert!(self.in_time(|| self.has_guest(&program.target())), "it joins");
        program
    }
}

impl Program {
    /// Asks it, and waits until it answers: it has its memory, and launches.
    #[track_caller]
    fn answers(&mut self) {
        self.ask();
        assert!(self.line().starts_with("launched "));
    }

    fn ask(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn target(&self) -> String {
        self.pid.to_string()
    }

    /// Asks a swappable program about its own memory, without the driver's part. Returns its
    /// answer. A thread opens its socket, which may be late, and a request that comes after 5 s has
    /// no answer.
    fn says_of_its_memory(&self, request: &str) -> String {
        let address = SocketAddr::from_abstract_name(format!("reef-swap-{}", self.pid)).unwrap();
        let answer = || -> Option<String> {
            let mut stream = UnixStream::connect_addr(&address).ok()?;
            writeln!(stream, "{request}").ok()?;
            let mut said = String::new();
            BufReader::new(stream).read_line(&mut said).ok()?;
            said.ends_with('\n').then_some(said)
        };
        let begin = Instant::now();
        loop {
            if let Some(said) = answer() {
                return said;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "it answers");
            std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
        }
    }

    /// Ends it: whether its number was right.
    fn ends_right(mut self) -> bool {
        drop(self.child.stdin.take());
        let is_right = self.lines.any(|line| line.unwrap().starts_with("right true"));
        is_right && self.child.wait().unwrap().success()
    }
}

/// A swappable program that works, on a device of 1 GiB.
fn swappable(name: &str, what: &str) -> (Machine, Program) {
    let machine = Machine { mib: Some(1024), ..Machine::new(name) };
    let mut program = machine.start_with(what, Some(&["--swappable"]));
    program.answers();
    (machine, program)
}

#[test]
fn suspended_program_sees_nothing_but_time() {
    let machine = Machine::new("suspend");
    let mut program = machine.start("plain", None);
    for round in 0..20 {
        machine.used(&[(program.pid, 64)]);
        let all = machine.works(&["suspend", &program.target()]);
        assert_eq!(
            (&all[0]["process"]["pid"], all[0]["held"][0]["bytes"].as_u64()),
            (&program.pid.into(), Some(64 << 20)),
            "{all}"
        );
        let error = machine.refuses(&["suspend", &program.target()]);
        assert!(error.contains("must be running, is suspended"), "{error}");
        program.ask(); // it answers when it is back
        machine.used(&[]);
        machine.works(&["resume", &program.target()]);
        assert!(program.line().starts_with("launched "), "round {round}");
    }
    let error = machine.refuses(&["resume", &program.target()]);
    assert!(error.contains("must be suspended, is running"), "{error}");
    assert!(program.ends_right());
}

#[test]
fn swappable_program_moves_its_own_memory() {
    let (machine, mut program) = swappable("suspend-swappable", "inside 192");
    for round in 0..6 {
        let all = machine.works(&["suspend", &program.target()]);
        assert_eq!(all[0]["is_swapped"], true, "{all}");
        let bytes = all[0]["held"][0]["bytes"].as_u64().unwrap();
        assert!((192 << 20..256 << 20).contains(&bytes), "{all}");
        // Another program takes its place.
        let other = machine.start_with("plain 900", None);
        let error = machine.refuses(&["resume", &program.target()]);
        assert!(error.contains("with 512 MiB to spare"), "{error}");
        program.ask(); // it answers when it is back
        assert!(other.ends_right());
        machine.works(&["resume", &program.target()]);
        assert!(program.line().starts_with("launched "), "round {round}");
    }
    assert!(program.ends_right());
}

/// As if its suspension had ended before the record was written.
#[test]
fn swappable_program_without_a_record_returns() {
    let (machine, mut program) = swappable("suspend-swappable-unknown", "inside 192");
    // Its own memory has left, and the driver has suspended nothing.
    let said = program.says_of_its_memory("out 60000");
    assert!(said.starts_with("moved "), "{said}");
    program.ask();
    machine.works(&["resume", &program.target()]);
    assert!(program.line().starts_with("launched "));
    // The driver has suspended it, too.
    machine.works(&["suspend", &program.target()]);
    let record = format!("suspended/{}.json", program.pid);
    std::fs::remove_file(machine.folder.path(&record)).unwrap();
    program.ask();
    machine.works(&["resume", &program.target()]);
    assert!(program.line().starts_with("launched "));
    let error = machine.refuses(&["resume", &program.target()]);
    assert!(error.contains("must be suspended, is running"), "{error}");
    assert!(program.ends_right());
}

/// Such as a worker that loads data. The driver refuses its calls, as without REEF.
#[test]
fn child_of_a_program_off_the_gpu_waits_for_nothing() {
    let (_machine, mut program) = swappable("suspend-swappable-child", "plain 64");
    let said = program.says_of_its_memory("out 60000");
    assert!(said.starts_with("moved "), "{said}");
    writeln!(program.child.stdin.as_mut().unwrap(), "fork").unwrap();
    assert_eq!(program.line(), "child Some(3)");
    let said = program.says_of_its_memory("in");
    assert!(said.starts_with("moved "), "{said}");
    assert!(program.ends_right());
}

/// The first piece of 128 MiB has room, and the second one has none: the host has released the
/// pages of the first.
#[test]
fn swappable_program_returns_after_a_return_refused_halfway() {
    let (machine, mut program) = swappable("suspend-swappable-halfway", "first 256");
    let said = program.says_of_its_memory("out 60000");
    assert!(said.starts_with("moved "), "{said}");
    program.ask(); // it answers when it is back
    let mut other = machine.start_with("plain 800", None);
    other.answers(); // it has its memory
    for round in 0..2 {
        let said = program.says_of_its_memory("in");
        let why = "refused its memory does not return: cuMemCreate: code 2";
        assert!(said.starts_with(why), "round {round}: {said}");
    }
    assert!(other.ends_right());
    let said = program.says_of_its_memory("in");
    assert!(said.starts_with("moved "), "{said}");
    assert!(program.line().starts_with("launched "));
    assert!(program.ends_right());
}

/// As by Ctrl-Z: it would take the request whenever it goes on.
#[test]
fn stopped_swappable_program_is_refused_and_runs_on() {
    let (machine, program) = swappable("suspend-swappable-stopped", "inside 64");
    let said = program.says_of_its_memory("in"); // its socket is open
    assert!(said.starts_with("refused "), "{said}");
    // SAFETY: a signal to a child of this process.
    let send = |signal| assert_eq!(unsafe { libc::kill(program.pid as i32, signal) }, 0);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", program.pid)).unwrap();
    send(libc::SIGSTOP);
    let is_stopped = machine.in_time(|| state().contains(") T "));
    let output = machine.reef(&["suspend", &program.target()]);
    send(libc::SIGCONT); // before anything fails: it would stay
    let error = text(&output.stderr);
    assert!(error.contains("it is stopped: SIGCONT, or its debugger"), "{error}");
    assert_eq!((is_stopped, output.status.code()), (true, Some(1)), "{error}");
    machine.works(&["suspend", &program.target()]);
    machine.works(&["resume", &program.target()]);
    assert!(program.ends_right());
}

#[test]
fn swappable_program_that_cannot_be_suspended_runs_on() {
    let mut machine = Machine::new("suspend-swappable-busy");
    machine.mib = Some(1024);
    machine.kernel_ns = 400_000_000;
    let mut program = machine.start_with("inside 64", Some(&["--swappable"]));
    program.answers();
    // Between two kernels it leaves, and is tried again.
    let said = (0..20).find_map(|_| {
        let output = machine.reef(&["suspend", &program.target(), "--timeout", "50ms"]);
        if output.status.success() {
            machine.works(&["resume", &program.target()]);
            return None;
        }
        Some((output.status.code(), text(&output.stderr).to_owned()))
    });
    let (code, error) = said.expect("one of twenty within a kernel");
    assert_eq!((code, error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("its calls, captures or work did not end within 0.05 s"), "{error}");
    machine.works(&["suspend", &program.target()]);
    program.ask();
    machine.works(&["resume", &program.target()]);
    assert!(program.line().starts_with("launched "));
    assert!(program.ends_right());
}

/// A `criu` that stops a process and writes an image, or has an error. It starts nothing.
const CRIU: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo "Version: 4.2"; exit; }
action=$1
while [ $# -gt 0 ]; do case $1 in -D) cd "$2";; -t) pid=$2;; esac; shift; done
[ $action = dump ] && cat /proc/$pid/task/*/comm >../../threads
[ $action = dump ] && grep -cs " 00010000 .*@reef-swap-$pid\$" /proc/net/unix >../../sockets
[ -e ../../broken ] && { echo "(00.1) Error (criu/files.c:1): file of another kind" >criu.log; exit 1; }
[ $action = dump ] && { kill -STOP $pid; echo pages >pages-1.img; exit; }
echo "(00.1) Error (criu/pstree.c:1): number is taken" >criu.log; exit 1
"#;

impl Machine {
    /// Returns whether the daemon has this process as a guest.
    fn has_guest(&self, pid: &str) -> bool {
        let label = format!("pid=\"{pid}\"");
        let said = metrics(&self.folder);
        said.lines().any(|line| line.starts_with("reef_guest_active{") && line.contains(&label))
    }

    /// Returns whether something is true within a minute.
    fn in_time(&self, is: impl Fn() -> bool) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(60) {
            if is() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
        }
        false
    }

    /// Environment in which `criu` is that script.
    fn with_criu(mut self) -> Self {
        use std::os::unix::fs::PermissionsExt;
        self.folder.file("criu", CRIU);
        let criu = self.folder.path("criu");
        std::fs::set_permissions(&criu, std::fs::Permissions::from_mode(0o755)).unwrap();
        self.criu = Some(criu);
        self
    }
}

#[test]
fn checkpoint_writes_a_folder_and_ends_the_program() {
    let machine = Machine::new("checkpoint").with_criu();
    let mut program = machine.start("plain", None);
    machine.used(&[(program.pid, 64)]);
    let folder = machine.folder.path("saved");
    let all = machine.works(&["checkpoint", &program.target(), "--out", &folder]);
    assert_eq!(all[0]["held"][0]["bytes"].as_u64(), Some(64 << 20), "{all}");
    // It keeps its number until this process has waited for it.
    let error = machine.refuses(&["restore", &folder]);
    let [its, parent] = [program.pid, std::process::id()].map(|pid| format!("process {pid} ("));
    assert!(error.contains(&format!(" must be free, {its}")), "{error}");
    assert!(error.contains(&format!(" has it: ended, and its parent, {parent}")), "{error}");
    assert!(!program.child.wait().unwrap().success(), "it has ended");
    machine.used(&[]);
    let error = machine.refuses(&["restore", &folder]);
    assert!(error.ends_with("number is taken\n"), "{error}");
    let image = std::path::Path::new(&folder).join("images/pages-1.img");
    std::fs::write(image, "pages?").unwrap();
    let error = machine.refuses(&["restore", &folder]);
    assert!(error.ends_with("pages-1.img: it is not as it was written\n"), "{error}");
}

#[test]
fn program_goes_on_after_a_checkpoint_that_fails_or_keeps_it() {
    let machine = Machine::new("checkpoint-keeps").with_criu();
    let mut program = machine.start("plain", None);
    machine.used(&[]);
    let (target, folder) = (program.target(), machine.folder.path("saved"));
    machine.folder.file("broken", "");
    let error = machine.refuses(&["checkpoint", &target, "--out", &folder]);
    assert!(error.ends_with("file of another kind\n"), "{error}");
    assert!(!std::path::Path::new(&folder).exists(), "a folder is whole or not there");
    program.answers();
    std::fs::remove_file(machine.folder.path("broken")).unwrap();
    machine.works(&["checkpoint", &target, "--out", &folder, "--keep-running"]);
    program.answers();
    let error = machine.refuses(&["restore", &folder]);
    let its = format!(" must be free, process {target} (");
    assert!(error.contains(&its) && !error.contains("must wait for it"), "{error}");
    program.answers();
    let error = machine.refuses(&["checkpoint", &target, "--out", &folder]);
    assert!(error.ends_with("it must not exist yet\n"), "{error}");
    assert!(program.ends_right());
}

#[test]
fn guest_leaves_its_daemon_while_it_is_written() {
    let machine = Machine::new("checkpoint-guest").with_criu();
    let _daemon = machine.daemon(&[]);
    let mut program = machine.start("plain", Some(&["--class", "be", "--job", "training"]));
    machine.used(&[]);
    let is_guest = || machine.has_guest(&program.target());
    assert!(machine.in_time(is_guest), "it joins");
    for name in ["broken", "whole"] {
        machine.folder.file(name, "");
        let folder = machine.folder.path(&format!("saved-{name}"));
        let args = ["checkpoint", "training", "--out", &folder, "--keep-running"];
        match name {
            "broken" => drop(machine.refuses(&args)),
            _ => drop(machine.works(&args)),
        }
        let threads = std::fs::read_to_string(machine.folder.path("threads")).unwrap();
        assert!(threads.contains("reef-watchdog") && !threads.contains("reef-link"), "{threads}");
        assert!(machine.in_time(is_guest), "it joins again: {}", metrics(&machine.folder));
        std::fs::remove_file(machine.folder.path(name)).unwrap();
    }
    machine.works(&["suspend", "training"]);
    machine.works(&["resume", "training"]);
    program.answers();
    assert!(program.ends_right());
}

#[test]
fn guest_that_cannot_be_written_is_named_with_the_reason() {
    let machine = Machine::new("checkpoint-refused").with_criu();
    let _daemon = machine.daemon(&[]);
    machine.used(&[]);
    let folder = machine.folder.path("saved");
    for (options, why) in [
        (&["--call-profile"][..], "a program with --call-profile cannot be written: "),
        (&["--class", "rt"], "a real-time guest cannot be written"),
    ] {
        let program = machine.start("plain", Some(options));
        assert!(machine.in_time(|| machine.has_guest(&program.target())), "it joins");
        let error = machine.refuses(&["checkpoint", &program.target(), "--out", &folder]);
        assert!(error.contains(why), "{error}");
        assert!(program.ends_right());
    }
    let program = machine.start("nccl", None);
    let error = machine.refuses(&["checkpoint", &program.target(), "--out", &folder]);
    assert!(error.contains("a program with NCCL cannot be written: "), "{error}");
    assert!(program.ends_right());
    let error = machine.refuses(&["checkpoint", "training", "--out", &folder]);
    assert!(error.contains("training: no guest has this job"), "{error}");
}

/// CRIU finds no file that a program had before it got its mount namespace.
#[test]
fn program_with_mounts_of_its_own_cannot_be_written() {
    let mut machine = Machine::new("checkpoint-mounts").with_criu();
    machine.used(&[]);
    let may = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        return reef_conformance::skip("no right to make a mount namespace");
    }
    machine.through = ["unshare", "-m"].map(str::to_owned).into();
    let program = machine.start("plain", None);
    let folder = machine.folder.path("saved");
    let error = machine.refuses(&["checkpoint", &program.target(), "--out", &folder]);
    assert!(error.contains("start it with --bind never"), "{error}");
    assert!(program.ends_right());
}

/// Description of a folder of `reef checkpoint`.
fn description(folder: &str) -> serde_json::Value {
    let file = std::path::Path::new(folder).join("description");
    let all = std::fs::read_to_string(file).unwrap();
    json(all.split_once('\n').unwrap().1)
}

/// The second start stands for that of the first one's process, which has ended.
#[test]
fn limited_program_is_written_with_its_account() {
    let mut machine = Machine::new("checkpoint-limited").with_criu();
    machine.used(&[]);
    machine.through = ["env", "REEF_LIMIT_ID=training"].map(str::to_owned).into(); // one job
    let limited = ["--memory", "120MiB"];
    let mut program = machine.start("plain", Some(&limited));
    program.answers();
    let folder = machine.folder.path("saved");
    machine.works(&["checkpoint", &program.target(), "--out", &folder, "--keep-running"]);
    program.answers();
    let description = description(&folder);
    let accounts = &description["accounts"];
    assert_eq!(accounts.as_array().map(Vec::len), Some(1), "{accounts}");
    assert_eq!(accounts[0]["pid"], program.pid, "{accounts}");
    let error = machine.refuses(&["restore", &folder]);
    let its = format!("the slot in the accounts must be free, process {} has it\n", program.pid);
    assert!(error.ends_with(&its), "{error}");
    assert!(program.ends_right());
    // The slot is free again after a start that fails.
    for _ in 0..2 {
        let error = machine.refuses(&["restore", &folder]);
        assert!(error.ends_with("number is taken\n"), "{error}");
    }
    let mut other = machine.start("plain", Some(&limited));
    other.answers();
    let error = machine.refuses(&["restore", &folder]);
    assert!(error.contains(": accounts of its limits: its job has "), "{error}");
    assert!(other.ends_right());
    std::fs::remove_dir_all(machine.folder.path("accounts")).unwrap();
    let error = machine.refuses(&["restore", &folder]);
    assert!(error.ends_with("number is taken\n"), "{error}");
    let made = std::fs::read_dir(machine.folder.path("accounts")).unwrap().count();
    assert_eq!(made, 1, "it would have its limit");
}

#[test]
fn swappable_program_is_written_without_its_socket() {
    let mut machine = Machine::new("checkpoint-swappable").with_criu();
    machine.mib = Some(1024);
    let mut program = machine.start_with("inside 64", Some(&["--swappable"]));
    program.answers();
    let target = program.target();
    for name in ["broken", "whole", "again"] {
        machine.folder.file(name, "");
        let folder = machine.folder.path(&format!("saved-{name}"));
        let args = ["checkpoint", &target, "--out", &folder, "--keep-running"];
        match name {
            "broken" => drop(machine.refuses(&args)),
            _ => assert_eq!(machine.works(&args)[0]["is_swapped"], true),
        }
        let sockets = std::fs::read_to_string(machine.folder.path("sockets")).unwrap();
        assert!(!sockets.starts_with('1'), "{sockets}");
        program.answers();
        std::fs::remove_file(machine.folder.path(name)).unwrap();
    }
    machine.works(&["suspend", &target]);
    machine.works(&["resume", &target]);
    program.answers();
    assert!(program.ends_right());
}

/// A child with a context of its own, as a worker that uses the GPU, and one without.
#[test]
fn descendants_are_suspended_and_end_with_the_program() {
    let mut machine = Machine::new("checkpoint-tree").with_criu();
    machine.used(&[]);
    let counts = "--exact suspend::counts --include-ignored </dev/null >/dev/null 2>&1";
    let script = format!(
        "cd '{}'; sleep 600 & echo $! >sleeper; \"$0\" {counts} & exec \"$0\" \"$@\"",
        machine.folder.path("")
    );
    machine.through = ["sh", "-c", &script].map(str::to_owned).into();
    let mut program = machine.start("plain", None);
    program.answers();
    let launched = || std::fs::read_to_string(machine.folder.path("launched")).unwrap_or_default();
    let number = || launched().parse::<u64>().unwrap_or(0);
    assert!(machine.in_time(|| number() > 0), "the child works");
    let [first, second] = ["saved-first", "saved-second"].map(|name| machine.folder.path(name));
    let target = program.target();
    let all = machine.works(&["checkpoint", &target, "--out", &first, "--keep-running"]);
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
    assert_eq!(all[0]["process"]["pid"], program.pid, "{all}");
    let before = number();
    program.answers();
    assert!(machine.in_time(|| number() > before), "the child goes on");
    let sleeper = std::fs::read_to_string(machine.folder.path("sleeper")).unwrap();
    let is_alive = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    assert!(is_alive(sleeper.trim()));
    let all = machine.works(&["checkpoint", &target, "--out", &second]);
    assert!(!program.child.wait().unwrap().success(), "it has ended");
    assert!(machine.in_time(|| !is_alive(sleeper.trim())), "its child has ended");
    let child = all[1]["process"]["pid"].to_string();
    assert!(machine.in_time(|| !is_alive(&child)), "its child has ended");
    assert_eq!(description(&second)["suspended"].as_array().map(Vec::len), Some(2));
}

/// An unmodified program with no input: it adds 2 to a number until the file `stop` is there, and
/// writes to `result` whether the number is right.
#[test]
#[ignore = "is a program that another test runs"]
fn counts() {
    let driver = Driver::start();
    let at = driver.allocate(16 << 20).unwrap();
    let (add, before) = (driver.adder(at), driver.read(at));
    let mut launched = 0_u64;
    while !std::path::Path::new("stop").exists() {
        add(2);
        driver.synchronize();
        launched += 1;
        std::fs::write("launched", launched.to_string()).unwrap();
    }
    let is_right = driver.read(at) == before + 2 * launched;
    std::fs::write("result", format!("right {is_right} after {launched}")).unwrap();
}

/// Needs CRIU, and root: `REEF_TEST_CRIU` names it.
#[test]
fn program_in_a_folder_starts_again() {
    starts_again("plain", None);
}

/// Needs CRIU, and root: `REEF_TEST_CRIU` names it.
#[test]
fn guest_in_a_folder_starts_again_and_joins() {
    starts_again("guest", Some(&[]));
}

/// Needs CRIU, and root: `REEF_TEST_CRIU` names it.
#[test]
fn limited_guest_in_a_folder_starts_again() {
    starts_again("limited", Some(&["--memory", "64MiB", "--compute", "50%"]));
}

/// Needs CRIU, and root: `REEF_TEST_CRIU` names it.
#[test]
fn swappable_guest_in_a_folder_starts_again() {
    starts_again("swappable", Some(&["--swappable"]));
}

/// The options are those of `reef exec`. Without them the program is started by itself.
fn starts_again(name: &str, exec: Option<&[&str]>) {
    let Some(criu) = std::env::var_os("REEF_TEST_CRIU") else {
        return reef_conformance::skip("REEF_TEST_CRIU names no criu");
    };
    use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
    // The process comes back as a child of this one, which can wait for its end.
    set_child_subreaper(Some(getpid())).unwrap();
    let is_guest = exec.is_some();
    let mut machine = Machine::new(&format!("checkpoint-criu-{name}"));
    machine.criu = Some(criu.into_string().unwrap());
    machine.used(&[]);
    let this = std::env::current_exe().unwrap();
    let _daemon = is_guest.then(|| machine.daemon(&[]));
    let mut command = if let Some(more) = exec {
        let mut command = machine.command(env!("CARGO_BIN_EXE_reef"));
        let options = ["--class", "be", "--job", "training"];
        command.args(["exec", "--socket-dir", &machine.folder.path(""), "--bind", "never"]);
        command.args(options).args(more);
        command.arg("--").arg(this);
        command
    } else {
        let libraries = machine.folder.path("lib");
        std::fs::create_dir_all(&libraries).unwrap();
        let link = std::path::Path::new(&libraries).join("libcuda.so.1");
        std::os::unix::fs::symlink(library("libfake_libcuda.so"), link).unwrap();
        let mut command = machine.command(this);
        command.env("LD_LIBRARY_PATH", libraries);
        command
    };
    command.current_dir(machine.folder.path(""));
    command.args(["--exact", "suspend::counts", "--include-ignored"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let launched = || std::fs::read_to_string(machine.folder.path("launched")).unwrap_or_default();
    let number = || launched().parse::<u64>().unwrap_or(0);
    let wait_for = |what: &dyn Fn() -> bool| {
        assert!(machine.in_time(what), "after {}", launched());
    };
    let pid = child.id().to_string();
    drop(child); // waited for by its number, as what comes back under it
    for round in 0..3 {
        let before = number();
        wait_for(&|| number() > before + 10);
        let folder = machine.folder.path(&format!("saved-{round}"));
        let target = if is_guest { "training" } else { &*pid };
        assert!(!is_guest || machine.in_time(|| machine.has_guest(&pid)), "it joins");
        machine.works(&["checkpoint", target, "--out", &folder]);
        let ended = waitpid(Pid::from_raw(pid.parse().unwrap()), WaitOptions::empty());
        assert!(ended.unwrap().unwrap().1.signaled(), "it has ended");
        let stopped = number();
        // sleep: time in which a fault would show; the process has ended
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(number(), stopped, "nothing runs");
        machine.works(&["restore", &folder]);
        wait_for(&|| number() > stopped);
    }
    machine.folder.file("stop", "");
    let result = || std::fs::read_to_string(machine.folder.path("result")).unwrap_or_default();
    wait_for(&|| result().starts_with("right ")); // the file is there before its text
    let result = result();
    assert!(result.starts_with("right true after "), "{result}");
}

#[test]
fn program_with_managed_memory_runs_on() {
    let machine = Machine::new("suspend-managed");
    let mut program = machine.start("managed", None);
    let error = machine.refuses(&["suspend", &program.target()]);
    assert!(
        error.contains("cannot suspend managed memory") && error.contains("runs on"),
        "{error}"
    );
    program.answers();
    assert!(program.ends_right());
}

/// A full disk, for one: no later return would know the program's memory.
#[test]
fn program_whose_record_cannot_be_written_runs_on() {
    let machine = Machine::new("suspend-unrecorded");
    let mut program = machine.start("plain", None);
    machine.used(&[]);
    let records = machine.folder.file("suspended", "in the way of the folder");
    let error = machine.refuses(&["suspend", &program.target()]);
    assert!(error.contains(&format!("{records}/{}.json: ", program.pid)), "{error}");
    program.answers();
    assert!(program.ends_right());
}

#[test]
fn return_without_memory_is_refused_before_it_begins() {
    let machine = Machine::new("suspend-full");
    let program = machine.start("plain", None);
    machine.used(&[(program.pid, 64)]);
    machine.works(&["suspend", &program.target()]);
    machine.used(&[(1, 600)]);
    let error = machine.refuses(&["resume", &program.target()]);
    assert!(
        error.contains("needs 64 MiB on GPU 0 with 512 MiB to spare, 424 MiB are free"),
        "{error}"
    );
    machine.used(&[(1, 400)]);
    machine.works(&["resume", &program.target()]);
    assert!(program.ends_right());
}

#[test]
fn move_to_an_unknown_gpu_leaves_the_program_running() {
    let machine = Machine::new("suspend-move");
    let mut program = machine.start("plain", None);
    machine.used(&[(program.pid, 64)]);
    let error = machine.refuses(&["move", &program.target(), "--to", "7"]);
    assert!(error.contains("no GPU 7 (have: 0 = GPU-"), "{error}");
    program.answers();
    let all = machine.works(&["move", &program.target(), "--to", "0"]);
    assert_eq!(all[0]["process"]["pid"], program.pid, "{all}");
    program.answers();
    assert!(program.ends_right());
}

#[test]
fn process_without_the_driver_is_refused_in_words() {
    let machine = Machine::new("suspend-none");
    let own = std::process::id().to_string();
    let error = machine.refuses(&["suspend", &own]);
    assert!(error.contains("must be a running CUDA program of the same user"), "{error}");
    let error = machine.refuses(&["suspend", "training"]);
    assert!(error.contains("without a daemon, name a process number"), "{error}");
    let output = machine.reef(&["suspend", &own, "--timeout", "0s"]);
    let want = "reef: --timeout must be from 1 ms to 600 s, got 0\n";
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), want));
    let error = machine.refuses(&["move", &own, "--to", "0"]);
    assert!(error.contains("must be a running CUDA program"), "{error}");
}

#[test]
fn guest_is_suspended_by_its_job() {
    let machine = Machine::new("suspend-guest");
    let _daemon = machine.daemon(&[]);
    let mut program = machine.start_guest("plain 64", &["--class", "be", "--job", "training"]);
    machine.used(&[(program.pid, 64)]);
    let all = machine.works(&["suspend", "training"]);
    assert_eq!(all[0]["process"]["pid"], program.pid, "{all}");
    let said = metrics(&machine.folder);
    let bytes = said.lines().find(|line| line.starts_with("reef_suspended_bytes{")).unwrap();
    assert!(bytes.ends_with(&format!(" {}", 64 << 20)), "{bytes}");
    program.ask();
    machine.used(&[]);
    machine.works(&["resume", "training"]);
    assert!(program.line().starts_with("launched "));
    let said = metrics(&machine.folder);
    assert!(said.contains("reef_suspensions_total{op=\"suspend\"} 1"), "{said}");
    assert!(!said.contains("reef_suspended_bytes{"), "{said}");
    let error = machine.refuses(&["suspend", "nothing"]);
    assert!(error.contains("no guest \"nothing\""), "{error}");
    assert!(program.ends_right());
}

/// A suspension waits for kernels of three seconds. A scrape comes in the middle of it.
#[test]
fn metrics_answer_during_a_suspension() {
    let machine = Machine { kernel_ns: 3_000_000_000, ..Machine::new("suspend-metrics") };
    let _daemon = machine.daemon(&[]);
    let program = machine.start_guest("plain 64", &["--class", "be", "--job", "training"]);
    // Where the suspension is over before the scrape, it is tried again.
    let is_scraped_during = |round: u32| {
        std::thread::scope(|scope| {
            let suspended = scope.spawn(|| machine.works(&["suspend", "training"]));
            // sleep: into the suspension; a scrape before it passes as well
            std::thread::sleep(Duration::from_millis(500));
            let before = format!("reef_suspensions_total{{op=\"suspend\"}} {round}\n");
            let is_during = metrics(&machine.folder).contains(&before) && !suspended.is_finished();
            assert_eq!(suspended.join().unwrap()[0]["process"]["pid"], program.pid);
            machine.works(&["resume", "training"]);
            is_during
        })
    };
    assert!((0..10).any(is_scraped_during), "ten were over before the scrape");
    assert!(program.ends_right());
}

/// Best-effort programs leave while a real-time one needs their memory, the smallest that is
/// enough, and the one that left comes back. The fake management library counts the fake driver's
/// memory.
#[test]
fn best_effort_program_leaves_for_memory_of_a_real_time_one() {
    let machine = Machine { mib: Some(2048), ..Machine::new("suspend-memory") };
    let _daemon = machine.daemon(&["--set", "guests.suspend=true"]);
    let best_effort = |job: &str, mib: u64| {
        machine.start_guest(&format!("plain {mib}"), &["--class", "be", "--job", job])
    };
    let (mut small, mut large) = (best_effort("small", 300), best_effort("large", 600));
    let mut real_time = machine.start_with("plain 1500", Some(&["--class", "rt"]));
    real_time.answers(); // it has its memory
    let now = metrics(&machine.folder);
    assert!(now.contains("reef_memory_requests_total{outcome=\"granted\"} 1"), "{now}");
    assert!(now.contains(&format!("reef_suspended_bytes{{pid=\"{}\"", large.pid)), "{now}");
    assert!(!now.contains(&format!("reef_suspended_bytes{{pid=\"{}\"", small.pid)), "{now}");
    small.answers(); // the small one runs on
    large.ask(); // it answers when it is back
    assert!(real_time.ends_right());
    assert!(large.line().starts_with("launched "));
    assert!(small.ends_right() && large.ends_right());
}

#[test]
fn memory_that_no_suspension_frees_is_refused_and_none_leaves() {
    let machine = Machine { mib: Some(1024), ..Machine::new("suspend-short") };
    let _daemon = machine.daemon(&["--set", "guests.suspend=true"]);
    let mut program = machine.start("plain", Some(&["--class", "be"]));
    program.answers();
    let mut real_time = machine.start_with("plain 1020", Some(&["--class", "rt"]));
    assert_eq!(real_time.line(), "memory 2", "more than the device has with what the driver adds");
    assert!(real_time.child.wait().unwrap().success());
    let now = metrics(&machine.folder);
    assert!(now.contains("reef_memory_requests_total{outcome=\"refused\"} 1"), "{now}");
    assert!(now.contains("reef_suspensions_total{op=\"suspend\"} 0"), "{now}");
    let mut real_time = machine.start_with("plain 1200", Some(&["--class", "be"]));
    assert_eq!(real_time.line(), "memory 2", "a best-effort program frees nothing");
    assert!(program.ends_right());
}

#[test]
fn policy_is_off_by_default() {
    let machine = Machine { mib: Some(1024), ..Machine::new("suspend-off") };
    let _daemon = machine.daemon(&[]);
    let mut program = machine.start_with("plain 600", Some(&["--class", "be"]));
    program.answers();
    let mut real_time = machine.start_with("plain 600", Some(&["--class", "rt"]));
    assert_eq!(real_time.line(), "memory 2");
    let options = ["exec", "--class", "rt", "--reserve", "600MiB", "--", "true"];
    let error = machine.refuses(&options);
    assert!(error.contains("guests.suspend is false"), "{error}");
    let error = machine.reef(&["exec", "--class", "be", "--reserve", "600MiB", "--", "true"]);
    assert_eq!(error.status.code(), Some(2), "{error:?}");
    assert!(program.ends_right());
}

/// Reserved memory stays free for its program: a best-effort one that has left does not come back
/// into it.
#[test]
fn reserved_memory_waits_for_its_program() {
    let machine = Machine { mib: Some(2048), ..Machine::new("suspend-reserve") };
    let _daemon = machine.daemon(&["--set", "guests.suspend=true"]);
    let mut program = machine.start_guest("plain 600", &["--class", "be", "--job", "training"]);
    let reserve = ["--class", "rt", "--reserve", "1600MiB"];
    let mut real_time = machine.start("plain", Some(&reserve));
    let away =
        |text: &str| text.contains(&format!("reef_suspended_bytes{{pid=\"{}\"", program.pid));
    assert!(away(&metrics(&machine.folder)), "it left before the program started");
    real_time.answers();
    // sleep: twice the time after which it would come back; none fails a right daemon
    std::thread::sleep(Duration::from_secs(4));
    assert!(away(&metrics(&machine.folder)));
    assert!(real_time.ends_right());
    program.answers();
    assert!(program.ends_right());
}

/// A program with managed memory is smaller, so it is tried first, and the driver refuses.
#[test]
fn program_that_cannot_leave_is_passed_over_and_runs_on() {
    let machine = Machine { mib: Some(2048), ..Machine::new("suspend-passed-by") };
    let _daemon = machine.daemon(&["--set", "guests.suspend=true"]);
    let best_effort = |what: &str| machine.start_guest(what, &["--class", "be"]);
    let (mut managed, plain) = (best_effort("managed 500"), best_effort("plain 600"));
    let mut real_time = machine.start_with("plain 1300", Some(&["--class", "rt"]));
    real_time.answers();
    let now = metrics(&machine.folder);
    assert!(now.contains("reef_suspensions_total{op=\"refused\"} 1"), "{now}");
    assert!(now.contains(&format!("reef_suspended_bytes{{pid=\"{}\"", plain.pid)), "{now}");
    managed.answers();
    assert!(real_time.ends_right() && managed.ends_right() && plain.ends_right());
}

#[test]
fn next_daemon_brings_back_whom_the_last_one_suspended() {
    let machine = Machine { mib: Some(2048), ..Machine::new("suspend-next") };
    let daemon = machine.daemon(&["--set", "guests.suspend=true"]);
    let mut program = machine.start_guest("plain 600", &["--class", "be"]);
    let mut real_time = machine.start_with("plain 1500", Some(&["--class", "rt"]));
    real_time.answers();
    assert!(metrics(&machine.folder).contains("reef_suspended_bytes{pid="));
    drop(daemon);
    assert!(real_time.ends_right());
    let _daemon = machine.daemon(&["--set", "guests.suspend=true"]);
    program.answers();
    assert!(program.ends_right());
}
