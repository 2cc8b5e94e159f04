//! Many processes, static ones, and Python's.

use super::{compiled, folder};
use crate::common::graph::Graph;
use crate::common::{self, Driver, FAKE, SHIM, call, library};
use reef_guest::registry::Registry;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Library that the program below opens.
const OPENS: &str = "REEF_TEST_OPENS";
/// Timeout of a process.
const LIMIT: Duration = Duration::from_secs(60);

/// Opens the driver, initialises it, launches a kernel, and says how long the first two took.
#[test]
#[ignore = "is a program that other tests run"]
fn starts() {
    let library = PathBuf::from(std::env::var_os(OPENS).unwrap());
    let begin = Instant::now();
    let driver = Driver::open(&library);
    assert_eq!(call!(driver, cuInit(0)), 0);
    let took = begin.elapsed();
    let [mut memory, mut mix] = [0_usize; 2];
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 8)), 0);
    assert_eq!(call!(driver, cuModuleGetFunction(&raw mut mix, 0, c"mix".as_ptr())), 0);
    assert_eq!(driver.launch("cuLaunchKernel", mix, 0, memory, 7), 0);
    assert_eq!(call!(driver, cuCtxSynchronize()), 0);
    // SAFETY: a word of the fake driver's.
    assert_eq!(unsafe { *(memory as *const u64) }, 7);
    println!("started: {}", took.as_nanos());
}

/// Waits for a process, for so long at most.
pub(super) fn wait(mut child: Child, what: &str) -> Output {
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{what}: no end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_micros(200)); // sleep: poll of a condition
    }
    child.wait_with_output().unwrap()
}

pub(super) fn piped(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the start times of processes that start at once, in nanoseconds.
pub(super) fn start_at_once(count: usize, opens: &str, socket: Option<&Path>) -> Vec<u64> {
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "loader::processes::starts", "--include-ignored", "--nocapture"]);
        command.env(OPENS, library(opens)).env("REEF_CUDA", library(FAKE));
        socket.into_iter().for_each(|socket| {
            command.env("REEF_GUESTS", socket);
        });
        piped(&mut command)
    };
    let children: Vec<_> = (0..count).map(|_| start()).collect();
    let times = children.into_iter().map(|child| {
        let output = wait(child, opens);
        let said = String::from_utf8_lossy(&output.stdout);
        let time = said.lines().find_map(|line| line.split_once("started: ")?.1.parse().ok());
        time.unwrap_or_else(|| panic!("{said} {}", String::from_utf8_lossy(&output.stderr)))
    });
    times.collect()
}

/// A daemon's registry at a socket of its own.
pub(super) fn registry(name: &str) -> (Registry, PathBuf) {
    let path = std::env::temp_dir().join(format!("reef-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    (Registry::open(&path, Box::new(|_, wish| Ok(wish.class))).unwrap(), path)
}

#[test]
fn many_processes_at_once_all_start() {
    let (_registry, path) = registry("many");
    assert_eq!(start_at_once(24, SHIM, Some(&path)).len(), 24);
}

/// Looks up functions, one of which isn't there, and launches a graph that can't be cloned, and one
/// that can't be either and has gates from its capture. Makes one that kernels may launch, one
/// whose kernels overlap, and one in which other kernels follow these.
#[test]
#[ignore = "is a program that another test runs"]
fn has_something_to_explain() {
    let driver = Driver::begin();
    let [mut at, mut status, mut mix, mut memory, mut stream] = [0_usize; 5];
    for (name, code) in [(c"cuGraphLaunch", 0), (c"cuNoSuchThing", 1)] {
        let (name, to) = (name.as_ptr(), &raw mut at);
        assert_eq!(call!(driver, cuGetProcAddress_v2(name, to, 12000, 0, &raw mut status)), 0);
        assert_eq!(status as u32, code);
    }
    assert_eq!(call!(driver, cuModuleGetFunction(&raw mut mix, 0, c"mix".as_ptr())), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 8)), 0);
    assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
    let graph = Graph::new(driver, mix);
    let (code, node) = graph.any(&[], 10, [0; 5]);
    assert_eq!(code, 0);
    graph.chain(&[node], memory, 0..100);
    let ([from_device, overlapping, mixed], mut exec) =
        ([(); 3].map(|()| Graph::new(driver, mix)), 0_usize);
    from_device.chain(&[], memory, 0..3);
    let of = from_device.handle;
    assert_eq!(call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, of, 4)), 0);
    for graph in [overlapping, mixed] {
        let pair = [0, 1].map(|value| graph.kernel(&[], memory, value));
        let (from, to, data) = (&raw const pair[0], &raw const pair[1], 1_u64 << 16);
        let (of, data) = (graph.handle, &raw const data);
        assert_eq!(call!(driver, cuGraphAddDependencies_v2(of, from, to, data, 1)), 0);
        graph.chain(&pair[1..], memory, 0..if graph.handle == mixed.handle { 100 } else { 0 });
        graph.instantiate();
    }
    let mut captured = Graph { handle: 0, ..graph };
    assert_eq!(call!(driver, cuStreamBeginCapture_v2(stream, 2)), 0);
    assert_eq!(call!(driver, cuMemAllocAsync(&raw mut at, 8, stream)), 0);
    for value in 0..100 {
        assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, value), 0);
    }
    assert_eq!(call!(driver, cuStreamEndCapture(stream, &raw mut captured.handle)), 0);
    for graph in [graph, captured] {
        assert_eq!(call!(driver, cuGraphLaunch(graph.instantiate(), stream)), 0);
        assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    }
}

#[test]
fn report_lists_missing_functions_and_ungated_graphs() {
    let (_registry, socket) = registry("explained");
    let folder = folder("explained-report");
    let once = |graphs| {
        let (file, name) = (folder.join("report"), "loader::processes::has_something_to_explain");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--include-ignored", "--nocapture"]);
        command.env("REEF_CUDA", library(FAKE)).env("REEF_GUESTS", &socket);
        command.env("REEF_EXPLAIN", &file).env("REEF_GRAPHS", graphs);
        let output = wait(piped(&mut command), name);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        said
    };
    // A guest gives its daemon 200 ms, which may not be enough on a busy machine: then it isn't
    // one.
    let is_guest = |said: &String| said.contains("class be");
    let report = |graphs| (0..10).map(|_| once(graphs)).find(is_guest).expect("ten tries");
    let said = report("");
    for line in [
        "functions looked up by name: 2, intercepted: 1, not found: 1",
        "graphs with a gate in front alone: 1 (it has memory nodes)",
        "graphs with a gate in front alone: 1 (kernels may launch it; the gate is before the graph of these)",
        "graphs with a gate in front alone: 1 (its kernels may overlap, and a gate between them would prevent that)",
        "graphs with gates before some kernels alone: 1 (its kernels may overlap, and a gate between them would prevent that)",
        "class be: kernels 0, graphs 2, captured 100, gates 2, gates in graphs 2,",
        "  daemon: joined after ",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let line = "graphs with a gate in front alone: 3 (REEF_GRAPHS=front)";
    assert!(report("front").contains(line));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Launches a graph of 100 kernels, 20 of them in a child graph, ten times, and waits for each.
#[test]
#[ignore = "is a program that another test runs"]
fn waits_for_graphs() {
    let driver = Driver::begin();
    let [mut mix, mut memory, mut stream] = [0_usize; 3];
    assert_eq!(call!(driver, cuModuleGetFunction(&raw mut mix, 0, c"mix".as_ptr())), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 8)), 0);
    assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
    let [graph, child] = [(); 2].map(|()| Graph::new(driver, mix));
    child.chain(&[], memory, 0..20);
    let node = graph.child(&[], &child);
    graph.chain(&[node], memory, 0..80);
    let exec = graph.instantiate();
    for _ in 0..10 {
        assert_eq!(call!(driver, cuGraphLaunch(exec, stream)), 0);
        assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    }
}

#[test]
fn report_predicts_what_mps_costs_a_real_time_program() {
    let (_registry, socket) = registry("mps-cost");
    let folder = folder("mps-cost-report");
    let once = || {
        let (file, name) = (folder.join("report"), "loader::processes::waits_for_graphs");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--include-ignored", "--nocapture"]);
        command.env("REEF_CUDA", library(FAKE)).env("REEF_GUESTS", &socket);
        command.env("REEF_EXPLAIN", &file).env("REEF_CLASS", "rt");
        command.env("CUDA_MPS_PIPE_DIRECTORY", &folder);
        let output = wait(piped(&mut command), name);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        said
    };
    // Launches before a late answer of the daemon aren't counted.
    let is_whole = |said: &String| said.contains("class rt: kernels 0, graphs 10,");
    let report = || (0..10).map(|_| once()).find(is_whole).expect("ten tries");
    let said = report();
    assert!(said.contains("  MPS would lengthen its iterations by "), "{said}");
    // The watchdog sees iterations as well, where this thread stands still for long.
    let kernels = said
        .split_once(" %, as predicted from ")
        .and_then(|(_, rest)| rest.split_once(" kernels of graphs in ")?.0.parse::<u64>().ok());
    assert!(kernels.is_some_and(|kernels| (21..=100).contains(&kernels)), "{said}");
    std::fs::write(folder.join("control"), "").unwrap();
    let said = report();
    assert!(said.contains("  MPS lengthens its iterations by "), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn value_that_a_variable_cannot_have_is_told() {
    let name = "loader::processes::starts";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--include-ignored"]).env(OPENS, library(SHIM));
    command.env("REEF_CUDA", library(FAKE)).env("REEF_CLASS", "RT").env("REEF_GRAPHS", "");
    let output = wait(piped(&mut command), name);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line = "reef: REEF_CLASS must be rt or be, got \"RT\": it has no effect\n";
    assert_eq!((said.matches(line).count(), said.matches("REEF_GRAPHS").count()), (1, 0), "{said}");
}

/// A service manager gives programs a socket, which can't be opened by a path.
#[test]
fn report_reaches_an_error_stream_that_is_a_socket() {
    let (mut here, there) = UnixStream::pair().unwrap();
    here.set_read_timeout(Some(LIMIT)).unwrap();
    let name = "loader::processes::starts";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--include-ignored"]).env(OPENS, library(SHIM));
    command.env("REEF_CUDA", library(FAKE)).env("REEF_EXPLAIN", "/dev/stderr");
    let child = command.stdout(Stdio::null()).stderr(OwnedFd::from(there)).spawn().unwrap();
    drop(command); // and with it this process's copy of the other end
    let mut said = String::new();
    here.read_to_string(&mut said).unwrap();
    assert!(wait(child, name).status.success(), "{said}");
    assert!(said.contains("  functions looked up by name: "), "{said}");
}

/// Says why a test is skipped: past the harness, which shows no output of a test that passes.
pub(super) fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// A program without a loader: nothing is preloaded, and it runs as it is.
#[test]
fn a_static_program_runs_as_without_the_shim() {
    let folder = folder("static");
    let text = "#include <stdio.h>\nint main(void) { puts(\"static\"); return 4; }\n";
    let Some(program) = compiled(text, folder.join("program"), &["-static"]) else {
        return skip("no C compiler that links statically");
    };
    let output = piped(Command::new(&program).env("LD_PRELOAD", library(SHIM)));
    let output = wait(output, "the static program");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(4), &b"static\n"[..]));
    assert!(output.stderr.is_empty());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A program of Python's `multiprocessing`, which forks and spawns before and after the driver was
/// initialised.
const PYTHON: &str = "
import ctypes, multiprocessing, sys

def init(_):
    return ctypes.CDLL('libcuda.so.1').cuInit(0)

if __name__ == '__main__':
    for way in ('fork', 'spawn'):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(init, range(2)))
    print('here', init(0))
    for way in ('fork', 'spawn'):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(init, range(2)), flush=True)
";

#[test]
fn children_of_python_programs_get_the_drivers_results() {
    let folder = folder("python");
    let program = folder.join("program.py");
    std::fs::write(&program, PYTHON).unwrap();
    std::os::unix::fs::symlink(library(FAKE), folder.join("libcuda.so.1")).unwrap();
    let (_registry, socket) = registry("python-guests");
    let run = |preload: &Path| {
        let mut command = Command::new("python3");
        command.arg(&program).env("LD_LIBRARY_PATH", &folder).env("LD_PRELOAD", preload);
        command.env("REEF_CUDA", library(FAKE)).env("REEF_GUESTS", &socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().ok().map(|child| {
            let output = wait(child, "python3");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        })
    };
    let Some(plain) = run(Path::new("")) else { return skip("no python3") };
    let (works, lost) = ("[0, 0]", "[3, 3]");
    assert_eq!(plain, format!("fork {works}\nspawn {works}\nhere 0\nfork {lost}\nspawn {works}\n"));
    assert_eq!(run(&library(SHIM)), Some(plain));
    std::fs::remove_dir_all(&folder).unwrap();
}
