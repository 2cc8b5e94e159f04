//! Programs whose GPU is a server's, where the server's workers are guests of a daemon.

use crate::common::daemon::{Daemon, metrics};
use crate::common::driver::library;
use crate::common::{Folder, json, says};
use std::io::{BufRead, BufReader};
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
    let books = folder.path("books");
    let _daemon = Daemon::start_in(&folder, &["--guests"], &[("REEF_BOOKS", &*books)]);
    let [own, programs] = ["own", "programs"].map(|name| format!("unix:{}", folder.path(name)));
    let mut server = Command::new(env!("CARGO_BIN_EXE_reef"));
    server.args(["remote", "serve", "--listen", &own, "--programs", &programs]);
    server.env("REEF_CUDA", library("libfake_libcuda.so")).env("REEF_BOOKS", &books);
    server.env("REEF_SHIM", library("libreef_cuda_shim.so")).stdout(Stdio::piped());
    server.env("REEF_GUESTS", folder.path("guests.sock")).env("REEF_JOB", "away");
    server.env("REEF_MEMORY", "64MiB").env("REEF_CLASS", "be");
    let mut server = server.spawn().unwrap();
    await_line(&mut output(&mut server), "for programs");
    let mut program = Command::new(env!("CARGO_BIN_EXE_reef"));
    program.args(["exec", "--remote", &programs, "--"]).arg(std::env::current_exe().unwrap());
    program.args(["--exact", "elsewhere::takes_all", "--include-ignored", "--nocapture"]);
    program.env("REEF_REMOTE_LIBRARY", library("libreef_remote_cuda.so"));
    program.env("REEF_CUDART", library("libreef_cudart.so"));
    program.env("XDG_RUNTIME_DIR", folder.path("")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    let mut lines = output(&mut program);
    let said = await_line(&mut lines, "got ");
    let got = said.split_once("got ").and_then(|(_, rest)| rest.split_once(" MiB, then code 2"));
    let got: usize = got.unwrap_or_else(|| panic!("{said}")).0.parse().unwrap();
    // The worker's own memory for copies counts as well.
    assert!((32..=64).contains(&got), "{said}");
    let top = ["top", "--folder", &folder.path(""), "--interval", "50ms", "--count", "1", "--json"];
    let begin = Instant::now();
    loop {
        let view = json(&says(&top));
        if view["guests"][0]["job"] == "away" && view["jobs"][0]["job"] == "away" {
            assert_eq!(view["guests"][0]["class"], "be", "{view}");
            assert_eq!(view["jobs"][0]["memory_bytes"].as_u64(), Some(64 << 20), "{view}");
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{view} {}", metrics(&folder));
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(program.stdin.take());
    await_line(&mut lines, "test result: ok");
    assert!(program.wait().unwrap().success());
    server.kill().unwrap();
    server.wait().unwrap();
}
