//! Programs whose GPU is a server's, and whose sessions go to another server or to a folder.

use crate::common::driver::{Driver, library};
use crate::common::{Folder, json};
use crate::memory::memory_of;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time within which a process must do what is expected.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A program with memory of `REEF_TEST_MIB`. For each line of its input, a number, it adds that
/// many numbers to a word and prints the word.
#[test]
#[ignore = "is a program that another test runs"]
fn adds() {
    let mebibytes: usize = std::env::var("REEF_TEST_MIB").unwrap().parse().unwrap();
    let driver = Driver::start_primary();
    let memory = match driver.allocate(mebibytes << 20) {
        Ok(memory) => memory,
        Err(code) => return println!("begun without memory: code {code}"),
    };
    driver.fill(memory, 7, mebibytes << 20);
    let word = driver.allocate(8).unwrap();
    driver.fill(word, 0, 8);
    let add = driver.adder(word);
    println!("begun");
    let mut next = 0;
    for line in std::io::stdin().lines() {
        for _ in 0..line.unwrap().parse::<u64>().unwrap() {
            next += 1;
            add(next);
            driver.synchronize();
        }
        let last = memory + (mebibytes << 20) - 8;
        let sevens = [memory, last].map(|at| driver.read(at));
        assert_eq!(sevens, [0x0707_0707_0707_0707; 2], "memory that nothing has written");
        println!("sum {}", driver.read(word));
    }
}

/// A server, and where programs find it.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(folder: &Folder, name: &str, options: &[&str]) -> Self {
        Self::start_at(folder, &format!("unix:{}", folder.path(name)), options)
    }

    fn start_at(folder: &Folder, address: &str, options: &[&str]) -> Self {
        let own = format!("unix:{}", folder.path(&format!("own-{}", own_number())));
        let mut command = reef(folder);
        command.args(["remote", "serve", "--listen", &own, "--programs", address]).args(options);
        command.env("REEF_CUDA", library("libfake_libcuda.so")).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said = lines.take(2).last().unwrap();
        let address =
            said.strip_prefix("listening on ").and_then(|rest| rest.strip_suffix(" for programs"));
        let address = address.unwrap_or_else(|| panic!("{said}")).into();
        Self { child, address }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Process numbers of its workers.
    fn workers(&self) -> Vec<u64> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(tasks).into_iter().flatten().flatten();
        let children = |task: std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("children")).unwrap_or_default()
        };
        let all: Vec<String> = tasks.map(children).collect();
        all.iter().flat_map(|text| text.split_whitespace()).filter_map(|n| n.parse().ok()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn own_number() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// The command, with the sockets of sessions in a folder.
pub(crate) fn reef(folder: &Folder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
    command.env("REEF_REMOTE_FOLDER", folder.path("sessions"));
    command.env("XDG_RUNTIME_DIR", folder.path(""));
    command
}

/// A program that another test's process is.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    begun: String,
    /// Numbers that it has added.
    added: u64,
}

impl Program {
    fn start(folder: &Folder, server: &Server, mebibytes: u64, options: &[&str]) -> Self {
        let mut command = reef(folder);
        command.args(["exec", "--remote", &server.address]).args(options).arg("--");
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "migration::adds", "--include-ignored", "--nocapture"]);
        command.env("REEF_REMOTE_LIBRARY", library("libreef_remote_cuda.so"));
        command.env("REEF_CUDART", library("libreef_cudart.so"));
        command.env("REEF_REMOTE_REPLAY", "1").env("REEF_TEST_MIB", mebibytes.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut program = Self { child, input, output, begun: String::new(), added: 0 };
        program.begun = program.await_line("begun");
        program
    }

    fn await_line(&mut self, what: &str) -> String {
        let mut lines = (&mut self.output).lines().map(Result::unwrap);
        let found = lines.find(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("{what}: the output has ended"))
    }

    fn ask(&mut self, count: u64) {
        writeln!(self.input.as_mut().unwrap(), "{count}").unwrap();
        self.added += count;
    }

    /// The answer to [`ask`](Self::ask): the sum of all numbers so far.
    #[track_caller]
    fn says_its_sum(&mut self) {
        let sum = self.added * (self.added + 1) / 2;
        let said = self.await_line("sum ");
        assert!(said.ends_with(&format!("sum {sum}")), "must be {sum}, got {said}");
    }

    #[track_caller]
    fn adds(&mut self, count: u64) {
        self.ask(count);
        self.says_its_sum();
    }

    #[track_caller]
    fn ends(mut self) {
        drop(self.input.take());
        self.await_line("test result: ok");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `reef remote …`.
pub(crate) fn remote(folder: &Folder, args: &[&str]) -> Output {
    reef(folder).arg("remote").args(args).output().unwrap()
}

/// Runs it with `--json`, and returns what it has printed.
#[track_caller]
pub(crate) fn says(folder: &Folder, args: &[&str]) -> Value {
    let output = remote(folder, &[args, &["--json"]].concat());
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    json(&text(&output.stdout))
}

/// Runs it, and returns the one line of its error.
#[track_caller]
pub(crate) fn refuses(folder: &Folder, args: &[&str]) -> String {
    let output = remote(folder, args);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{args:?}: {text}");
    text
}

/// The one session of a server, once its worker has answered.
#[track_caller]
fn session(folder: &Folder, server: &Server) -> Value {
    let begin = Instant::now();
    loop {
        // Without a server that answers late.
        let listed = remote(folder, &["ps", "--json"]);
        let all = json(&String::from_utf8_lossy(&listed.stdout));
        let workers = server.workers();
        let its = |session: &&Value| workers.iter().any(|worker| session["pid"] == *worker);
        let servers = all.as_array().unwrap().iter();
        let sessions = servers.flat_map(|server| server["sessions"].as_array().unwrap());
        let its: Vec<&Value> = sessions.filter(its).collect();
        // A worker that answers late is listed with nothing.
        if let [one] = its[..]
            && one["replies"].as_u64() > Some(0)
        {
            return one.clone();
        }
        assert!(begin.elapsed() < SOON, "{all} of {workers:?}");
        std::thread::sleep(Duration::from_millis(10)); // sleep: poll of a condition
    }
}

/// Waits until a server has no process of a session: its memory is free then.
#[track_caller]
fn await_free(server: &Server) {
    let begin = Instant::now();
    while !server.workers().is_empty() {
        assert!(begin.elapsed() < SOON, "{:?}", server.workers());
        std::thread::sleep(Duration::from_millis(10)); // sleep: poll of a condition
    }
}

fn worker(session: &Value) -> String {
    session["pid"].to_string()
}

#[test]
fn program_moves_there_and_back_and_prints_the_same() {
    let folder = Folder::new("migration-moves");
    let servers = ["a", "b"].map(|name| Server::start(&folder, name, &[]));
    let mut program = Program::start(&folder, &servers[0], 12, &[]);
    program.adds(5);
    for at in [0, 1, 0] {
        let (from, to) = (&servers[at], &servers[1 - at]);
        let session = session(&folder, from);
        let name = session["program"].as_str().unwrap();
        assert!(name.starts_with("integration-"), "{session}");
        let memory = session["memory_bytes"].as_u64().unwrap();
        assert!(memory >= 12 << 20, "{session}");
        // It adds while it is moved.
        program.ask(300);
        let moved = says(&folder, &["migrate", &worker(&session), "--to", &to.address]);
        assert_eq!(moved["memory_bytes"], memory, "{moved}");
        assert!(moved["pause_bytes"].as_u64().unwrap() < memory, "{moved}");
        assert!(moved["pause_ms"].as_f64().unwrap() > 0.0, "{moved}");
        program.says_its_sum();
        await_free(from);
        assert_eq!(to.workers().len(), 1);
        program.adds(5);
    }
    program.ends();
    await_free(&servers[1]);
}

/// Servers with tenants, at addresses of this machine.
fn tenants(folder: &Folder, name: &str, memory: [&str; 2]) -> Server {
    let mut text = String::new();
    for (tenant, memory) in ["alice", "bob"].into_iter().zip(memory) {
        let token = folder
            .file(&format!("{name}-{tenant}.token"), format!("{name} {tenant}: a long secret"));
        text +=
            &format!("[rights.\"token {tenant}\"]\ntoken_file = {token:?}\nmemory = {memory:?}\n");
    }
    let rights = folder.file(&format!("{name}.toml"), text);
    Server::start_at(folder, "127.0.0.1:0", &["--rights", &rights])
}

#[test]
fn server_that_refuses_leaves_the_program_where_it_is() {
    let folder = Folder::new("migration-refused");
    let a = tenants(&folder, "a", ["48MiB", "48MiB"]);
    let b = tenants(&folder, "b", ["8MiB", "48MiB"]);
    let token = |name: &str| folder.path(&format!("{name}.token"));
    let alice = token("a-alice");
    let mut program = Program::start(&folder, &a, 24, &["--token-file", &alice]);
    program.adds(3);
    let its = worker(&session(&folder, &a));
    let mut refused = |options: &[&str], what: &str| {
        let said = refuses(&folder, &[&["migrate", &its][..], options].concat());
        assert!(said.contains(what), "{what}: {said}");
        program.adds(3);
        assert_eq!(a.workers().len(), 1, "{what}");
    };
    let nowhere = format!("unix:{}", folder.path("nowhere"));
    refused(&["--to", &nowhere], "No such file");
    refused(&["--to", &b.address], "this server wants a token");
    refused(&["--to", &b.address, "--token-file", &alice], "not one of this server's");
    let [poor, rich] = [token("b-alice"), token("b-bob")];
    refused(&["--to", &b.address, "--token-file", &poor], "code 2");
    let said = refuses(&folder, &["migrate", "1", "--to", &b.address]);
    assert!(said.contains("session 1: there is none on this machine, for this user"), "{said}");
    await_free(&b);
    // A second program finds no room at the first server, until the session has moved.
    let full = Program::start(&folder, &a, 24, &["--token-file", &alice]);
    assert!(full.begun.contains("without memory: code 2"), "{}", full.begun);
    drop(full);
    // The program has no token of the other server: it goes there with the session's own key.
    says(&folder, &["migrate", &its, "--to", &b.address, "--token-file", &rich]);
    program.adds(3);
    await_free(&a);
    let room = Program::start(&folder, &a, 24, &["--token-file", &alice]);
    assert!(room.begun.ends_with("begun"), "{}", room.begun);
    room.ends();
    // Its memory counts for the tenant whose token it was moved with.
    let full = Program::start(&folder, &b, 24, &["--token-file", &rich]);
    assert!(full.begun.contains("without memory: code 2"), "{}", full.begun);
    drop(full);
    program.ends();
}

/// The other server has admitted the worker by its token, and then refused its memory.
#[test]
fn worker_that_moves_does_not_have_the_token() {
    let folder = Folder::new("migration-token");
    let a = Server::start(&folder, "a", &[]);
    let b = tenants(&folder, "b", ["8MiB", "48MiB"]);
    let mut program = Program::start(&folder, &a, 24, &[]);
    program.adds(3);
    let session = session(&folder, &a);
    let its = worker(&session);
    let token = folder.path("b-alice.token");
    let said = refuses(&folder, &["migrate", &its, "--to", &b.address, "--token-file", &token]);
    assert!(said.contains("code 2"), "{said}");
    let memory = memory_of(its.parse().unwrap());
    let has = |text: &str| memory.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(has(session["program"].as_str().unwrap()), "its memory is read");
    assert!(!has("b alice: a long secret") && !has("b-alice.token"));
    program.adds(3);
    says(
        &folder,
        &["migrate", &its, "--to", &b.address, "--token-file", &folder.path("b-bob.token")],
    );
    program.adds(3);
    await_free(&a);
    program.ends();
}

#[test]
fn server_that_dies_meanwhile_leaves_the_program_where_it_is() {
    let folder = Folder::new("migration-dies");
    let a = Server::start(&folder, "a", &[]);
    let mut program = Program::start(&folder, &a, 300, &[]);
    program.adds(3);
    let its = worker(&session(&folder, &a));
    for name in ["b", "c"] {
        let mut b = Server::start(&folder, name, &[]);
        let said = std::thread::scope(|scope| {
            let mover = scope.spawn(|| refuses(&folder, &["migrate", &its, "--to", &b.address]));
            let begin = Instant::now();
            while b.workers().is_empty() {
                assert!(begin.elapsed() < SOON && !mover.is_finished());
                std::thread::sleep(Duration::from_micros(200)); // sleep: poll of a condition
            }
            if name == "c" {
                // sleep: some of the memory is there; an end at any other time is right as well
                std::thread::sleep(Duration::from_millis(60));
            }
            rustix::process::kill_process(pid(b.child.id()), rustix::process::Signal::KILL)
                .unwrap();
            mover.join().unwrap()
        });
        println!("{name}: {said}");
        b.kill();
        program.adds(3);
        assert_eq!(a.workers().len(), 1, "{said}");
    }
    let c = Server::start(&folder, "d", &[]);
    says(&folder, &["migrate", &its, "--to", &c.address]);
    program.adds(3);
    program.ends();
}

fn pid(number: u32) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(number as i32).unwrap()
}

#[test]
fn session_in_a_folder_is_restored_by_another_server_process() {
    let folder = Folder::new("migration-folder");
    let mut a = Server::start(&folder, "a", &[]);
    let address = a.address.clone();
    let mut program = Program::start(&folder, &a, 12, &[]);
    program.adds(3);
    let out = folder.path("saved");
    let its = worker(&session(&folder, &a));
    let written = says(&folder, &["snapshot", &its, "--out", &out]);
    assert!(written["memory_bytes"].as_u64().unwrap() >= 12 << 20, "{written}");
    program.adds(3); // it runs on
    says(&folder, &["snapshot", &its, "--out", &out, "--end"]);
    await_free(&a);
    program.ask(3); // it waits
    a.kill();
    let a = Server::start_at(&folder, &address, &[]);
    let file = Path::new(&out).join("session.reef");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has the program's memory");
    let whole = std::fs::read(&file).unwrap();
    for (at, mask) in [(0, 1), (whole.len() / 2, 0x10), (whole.len() - 1, 0x80)] {
        let mut damaged = whole.clone();
        damaged[at] ^= mask;
        std::fs::write(&file, &damaged).unwrap();
        let said = refuses(&folder, &["restore", &out, "--to", &address]);
        assert!(said.contains("session.reef"), "{at}: {said}");
    }
    std::fs::write(&file, &whole[..whole.len() - 100]).unwrap();
    let said = refuses(&folder, &["restore", &out, "--to", &address]);
    assert!(said.contains("session.reef"), "{said}");
    std::fs::write(&file, &whole).unwrap();
    let restored = says(&folder, &["restore", &out, "--to", &address]);
    assert_eq!(restored["memory_bytes"], written["memory_bytes"]);
    program.says_its_sum();
    program.adds(3);
    assert_eq!(a.workers().len(), 1);
    program.ends();
    let said = refuses(&folder, &["restore", &folder.path("none"), "--to", &address]);
    assert!(said.contains("none"), "{said}");
}
