//! Programs whose GPU is a server's: its workers as guests of a daemon, and what an operator sees.

use crate::common::daemon::{Daemon, metrics};
use crate::common::driver::library;
use crate::common::{Folder, json, reef, refuses, says, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that takes all the memory that it gets, in pieces of a mebibyte, fills it, and waits
/// for the end of its input.
#[test]
#[ignore = "is a program that another test runs"]
fn takes_all() {
    // SAFETY: a library in the driver's place.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
    // SAFETY: the driver's functions of these names have these arguments.
    unsafe {
        let one = |name: &str| *driver.get::<extern "C" fn(usize) -> u32>(name.as_bytes()).unwrap();
        let three = |name: &str| {
            *driver.get::<extern "C" fn(usize, usize, usize) -> u32>(name.as_bytes()).unwrap()
        };
        let (mut context, mut at) = (0_usize, 0_usize);
        assert_eq!(one("cuInit")(0), 0);
        assert_eq!(three("cuDevicePrimaryCtxRetain")(&raw mut context as usize, 0, 0), 0);
        assert_eq!(one("cuCtxSetCurrent")(context), 0);
        let mut add = 0_usize;
        let (function, name) = (three("cuModuleGetFunction"), c"add".as_ptr() as usize);
        assert_eq!(function(&raw mut add as usize, 0, name), 0);
        let (allocate, fill) = (three("cuMemAlloc_v2"), three("cuMemsetD8_v2"));
        let mut take = || match allocate(&raw mut at as usize, 1 << 20, 0) {
            0 => fill(at, 1, 1 << 20),
            code => code,
        };
        let got = (0..1000).take_while(|_| take() == 0).count();
        println!("got {got} MiB, then code {}", take());
        // A kernel, so that the worker has something to hold.
        type Launch = extern "C" fn(
            usize,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            usize,
            *const *const u64,
            usize,
        ) -> u32;
        let launch = driver.get::<Launch>(b"cuLaunchKernel").unwrap();
        let (to, value) = (at as u64, 1_u64);
        let params = [&raw const to, &raw const value];
        assert_eq!(launch(add, 1, 1, 1, 1, 1, 1, 0, 0, params.as_ptr(), 0), 0);
        assert_eq!(one("cuCtxSynchronize")(0), 0);
    }
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A server that ends with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it has ended
        let _ = self.0.wait();
    }
}

/// Starts the program [`takes_all`] on a server.
fn program(folder: &Folder, address: &str) -> Child {
    command(folder, address, &[]).spawn().unwrap()
}

fn command(folder: &Folder, address: &str, options: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_reef"));
    program
        .args(["exec", "--remote", address])
        .args(options)
        .arg("--")
        .arg(std::env::current_exe().unwrap());
    program.args(["--exact", "elsewhere::takes_all", "--include-ignored", "--nocapture"]);
    program.env("REEF_REMOTE_LIBRARY", library("libreef_remote_cuda.so"));
    program.env("REEF_CUDART", library("libreef_cudart.so"));
    program.env("XDG_RUNTIME_DIR", folder.path("")).stdin(Stdio::piped()).stdout(Stdio::piped());
    program
}

/// Reads lines up to one that has this text, and returns it.
fn await_line(output: &mut impl BufRead, what: &str) -> String {
    let mut lines = output.lines().map(Result::unwrap);
    lines.find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: the output has ended"))
}

fn output(child: &mut Child) -> impl BufRead + use<> {
    BufReader::new(child.stdout.take().unwrap())
}

#[test]
fn worker_is_a_guest_of_the_servers_daemon() {
    let folder = Folder::new("elsewhere");
    let accounts = folder.path("accounts");
    let _daemon = Daemon::start_in(&folder, &["--guests"], &[("REEF_ACCOUNTS", &*accounts)]);
    let [own, programs] = ["own", "programs"].map(|name| format!("unix:{}", folder.path(name)));
    let mut server = Command::new(env!("CARGO_BIN_EXE_reef"));
    server.args(["remote", "serve", "--listen", &own, "--programs", &programs]);
    server.args(["--socket-dir", &folder.path("")]);
    server.env("REEF_CUDA", library("libfake_libcuda.so")).env("REEF_ACCOUNTS", &accounts);
    server.env("REEF_SHIM", library("libreef_cuda_shim.so")).stdout(Stdio::piped());
    server.env("REEF_GUESTS", folder.path("guests.sock")).env("REEF_JOB", "away");
    server.env("REEF_MEMORY", "64MiB").env("REEF_CLASS", "be");
    let mut server = Server(server.spawn().unwrap());
    await_line(&mut output(&mut server.0), "for programs");
    let mut program = program(&folder, &programs);
    let mut lines = output(&mut program);
    let said = await_line(&mut lines, "got ");
    let got = said.split_once("got ").and_then(|(_, rest)| rest.split_once(" MiB, then code 2"));
    let got: usize = got.unwrap_or_else(|| panic!("{said}")).0.parse().unwrap();
    // The worker's own memory for copies counts as well.
    assert!((32..=64).contains(&got), "{said}");
    let top =
        ["top", "--socket-dir", &folder.path(""), "--interval", "50ms", "--count", "1", "--json"];
    let begin = Instant::now();
    loop {
        let view = json(&says(&top));
        if view["guests"][0]["job"] == "away" && view["jobs"][0]["job"] == "away" {
            assert_eq!(view["guests"][0]["class"], "be", "{view}");
            let client = view["guests"][0]["client"].as_str().unwrap();
            assert!(client.contains("integration") && client.contains(" @ pid "), "{view}");
            assert_eq!(view["sessions"][0]["client"], client, "{view}");
            assert_eq!(view["jobs"][0]["memory_bytes"].as_u64(), Some(64 << 20), "{view}");
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{view} {}", metrics(&folder));
        std::thread::sleep(Duration::from_millis(50)); // sleep: poll of a condition
    }
    drop(program.stdin.take());
    await_line(&mut lines, "test result: ok");
    assert!(program.wait().unwrap().success());
}

/// All that an operator sees of a session, without a daemon, and its end.
#[test]
fn operator_sees_a_session_and_ends_it() {
    let folder = Folder::new("operator");
    let [own, programs] = ["own", "programs"].map(|name| format!("unix:{}", folder.path(name)));
    let sockets = ["--socket-dir", &folder.path("")];
    let mut server = Command::new(env!("CARGO_BIN_EXE_reef"));
    server.args(["remote", "serve", "--listen", &own, "--programs", &programs]).args(sockets);
    server.args(["--metrics", "127.0.0.1:0"]).env("REEF_CUDA", library("libfake_libcuda.so"));
    let mut server = Server(server.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = output(&mut server.0);
    let said = await_line(&mut lines, "metrics at ");
    let address = said.strip_prefix("metrics at http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap().to_owned();
    let with = |args: &[&str]| says(&[args, &sockets].concat());
    // A server that answers late is left out of what is printed.
    let shows = |args: &[&str], is: &dyn Fn(&str) -> bool| {
        let begin = Instant::now();
        loop {
            let output = reef(&[args, &sockets].concat());
            let said = text(&output.stdout);
            if is(said) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{said} {}", text(&output.stderr));
        }
    };
    shows(&["remote", "ps"], &|said| said == "no session (1 server)\n");

    // Without a right to it no program is real-time.
    let asks = command(&folder, &programs, &["--class", "rt"]).stderr(Stdio::piped()).output();
    let asks = asks.unwrap();
    assert!(!asks.status.success());
    assert!(text(&asks.stderr).contains("class: must be be, got rt"), "{}", text(&asks.stderr));

    let mut program = program(&folder, &programs);
    await_line(&mut output(&mut program), "got ");
    // A worker that answers late is listed with nothing.
    let begin = Instant::now();
    let listed = loop {
        let all = reef(&["remote", "ps", "--json", sockets[0], sockets[1]]);
        let listed = json(text(&all.stdout)); // of a server that answers late, nothing
        if listed[0]["sessions"][0]["replies"].as_u64() > Some(3) {
            break listed;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{listed}");
    };
    let session = &listed[0]["sessions"][0];
    assert_eq!(listed[0]["listening"], serde_json::json!([own, programs]), "{listed}");
    assert_eq!((&session["kind"], &session["id"]), (&"program".into(), &1.into()), "{listed}");
    assert!(session["program"].as_str().unwrap().starts_with("integration"), "{listed}");
    assert!(session["memory_bytes"].as_u64() >= Some(1 << 20), "{listed}");
    let name = format!("{}.1", server.0.id());
    shows(&["remote", "ps", &programs], &|said| said.contains(&name) && said.contains("connected"));
    // Without a daemon.
    shows(&["top", "--interval", "50ms", "--count", "1", "--json"], &|said| {
        let view: Result<serde_json::Value, _> = serde_json::from_str(said);
        view.is_ok_and(|view| view["sessions"][0]["kind"] == "program")
    });

    let mut http = std::net::TcpStream::connect(&*address).unwrap();
    let ask = |http: &mut std::net::TcpStream, path: &str| {
        write!(http, "GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
        let mut text = String::new();
        http.read_to_string(&mut text).unwrap();
        text
    };
    let numbers = ask(&mut http, "/metrics");
    let line = "reef_remote_sessions{kind=\"program\",state=\"connected\"} 1";
    assert!(numbers.lines().any(|have| have == line), "{numbers}");
    let mut http = std::net::TcpStream::connect(&*address).unwrap();
    assert!(
        ask(&mut http, "/sessions").starts_with("HTTP/1.1 404"),
        "by TCP there are numbers alone"
    );

    let trace = folder.path("trace.json");
    let session = format!("session {name}: ");
    shows(&["remote", "trace", "--time", "100ms", "--out", &trace], &|said| {
        let has_session = |trace: String| trace.contains(&session);
        said.contains("events") && std::fs::read_to_string(&trace).is_ok_and(has_session)
    });

    let ends = ["remote", "end", &format!("{}.1", server.0.id()), sockets[0], sockets[1]];
    assert!(says(&ends).ends_with(".1 ends\n"));
    shows(&["remote", "ps"], &|said| said == "no session (1 server)\n");
    let again = reef(&ends);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(text(&again.stderr), "reef: session 1: there is none\n");
    program.kill().unwrap();
    program.wait().unwrap();
    drop(server);
    let gone = with(&["remote", "ps"]);
    assert!(gone.starts_with("no server of this user runs here"), "{gone}");
    assert!(refuses(&["remote", "end", "seven"]).contains("must be SERVER.NUMBER"));
    for wrong in ["", "gpu-server", "host:99999"] {
        let said = refuses(&["remote", "migrate", "7", "--to", wrong]);
        assert!(said.starts_with("--to must be HOST:PORT"), "{said}");
    }
    let empty = folder.file("empty.pem", "");
    let said = refuses(&["remote", "serve", "--cert", &empty, "--key", &empty]);
    assert_eq!(said, format!("cert {empty}: no certificate (PEM) in it"));
    let wide = ["remote", "serve", "--metrics", "0.0.0.0:1"];
    assert!(refuses(&wide).contains("must be a loopback address"));
}

#[test]
fn silent_server_has_the_command_fail() {
    let folder = Folder::new("silent");
    let [silent, ended] = ["remote-7.sock", "remote-8.sock"].map(|name| folder.path(name));
    let _silent = UnixListener::bind(&silent).unwrap(); // it accepts nothing
    drop(UnixListener::bind(ended).unwrap());
    let at = folder.path("");
    let ps = |more: &str| reef(&["remote", "ps", "--socket-dir", &at, more]);
    let all = ps("--json");
    assert_eq!((all.status.code(), text(&all.stdout)), (Some(1), "[]\n"));
    let want = format!("reef: not all servers have answered: {silent}: no answer in 2s\n");
    assert_eq!(text(&all.stderr), want);
    let named = ps("7");
    assert_eq!((text(&named.stdout), text(&named.stderr)), ("", &*want));
    let gone = ps("8");
    assert_eq!(gone.status.code(), Some(2), "{}", text(&gone.stderr));
}
