//! Values that a program sees of its memory, and lines for its operator.

use super::{Job, LIMIT, exists, ours, run};
use crate::common::graph::Graph;
use crate::common::{self, Driver, SHIM, call, library};
use std::ffi::CStr;
use std::process::Command;

/// Says what it is told, and what becomes of an allocation.
#[test]
#[ignore = "is a program that other tests run"]
fn asks() {
    let driver = Driver::open(&library(SHIM));
    let init = call!(driver, cuInit(0));
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    let [mut at, mut left, mut total, mut all] = [0_usize; 4];
    let code = call!(driver, cuMemAlloc_v2(&raw mut at, 1 << 20));
    assert_eq!(call!(driver, cuMemGetInfo_v2(&raw mut left, &raw mut total)), 0);
    assert_eq!(call!(driver, cuMemGetInfo_v2(0, 0)), 0, "both pointers are null");
    assert_eq!(call!(driver, cuDeviceTotalMem_v2(&raw mut all, 0)), 0);
    let mut old = [0_u32; 3];
    let [old_left, old_total, old_all] = old.each_mut().map(std::ptr::from_mut);
    assert_eq!(call!(driver, cuMemGetInfo(old_left, old_total)), 0);
    assert_eq!(call!(driver, cuDeviceTotalMem(old_all, 0)), 0);
    assert_eq!(old.map(|bytes| bytes as usize), [left, total, all], "as functions of CUDA 3");
    eprintln!("told: init {init} alloc {code} left {left} total {total} all {all}");
}

/// Asks for memory before the driver has begun, and after that.
#[test]
#[ignore = "is a program that other tests run"]
fn asks_before_the_driver_begins() {
    let driver = Driver::open(&library(SHIM));
    let (mut handle, mut at, mut place) = (0_usize, 0_usize, [0_u32; 24]);
    place[..4].copy_from_slice(&[1, 1, 1, 0]); // a CUmemAllocationProp of the first device
    let early = call!(driver, cuMemCreate(&raw mut handle, 2 << 20, place.as_ptr(), 0));
    assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(1))), (0, 0));
    let code = call!(driver, cuMemAlloc_v2(&raw mut at, 1 << 20));
    let over = call!(driver, cuMemAlloc_v2(&raw mut at, LIMIT as usize));
    eprintln!("told: early {} alloc {code} over {over}", early != 0);
}

/// Looks its functions up, as NVIDIA's runtime does, and asks for more than it may have.
#[test]
#[ignore = "is a program that other tests run"]
fn looks_up() {
    let driver = Driver::begin();
    let look_up = |name: &CStr| {
        let (mut at, mut status) = (0_usize, 7_u32);
        let to = (&raw mut at, &raw mut status);
        let name = name.as_ptr();
        assert_eq!(call!(driver, cuGetProcAddress_v2(name, to.0, 12000, 0, to.1)), 0);
        // SAFETY: both functions that are looked up take two words.
        unsafe { std::mem::transmute::<usize, extern "C" fn(*mut usize, usize) -> u32>(at) }
    };
    let [mut at, mut left, mut total] = [0_usize; 3];
    let code = look_up(c"cuMemAlloc")(&raw mut at, LIMIT as usize + 1);
    let info = look_up(c"cuMemGetInfo")(&raw mut left, &raw mut total as usize);
    eprintln!("told: alloc {code} info {info} left {left} total {total}");
}

/// Looks a function up for a newer toolkit, as the runtime of that does.
#[test]
#[ignore = "is a program that other tests run"]
fn looks_up_a_newer_variant() {
    let driver = Driver::begin();
    let look_up = |name: &CStr| {
        let (mut at, mut status) = (0_usize, 7_u32);
        let (to, status_to, name) = (&raw mut at, &raw mut status, name.as_ptr());
        assert_eq!(call!(driver, cuGetProcAddress_v2(name, to, 14000, 0, status_to)), 0);
        let old = call!(driver, cuGetProcAddress(name, to, 14000, 0));
        (at != 0, status, old)
    };
    let [newer, known, same] = [c"cuMemAlloc", c"cuMemFree", c"cuMemAllocManaged"].map(look_up);
    let mut names = [0_u8; 64];
    let (to, bytes) = (names.as_mut_ptr(), names.len());
    let count = call!(driver, reef_unknown_variants(14000, to, bytes));
    let name = CStr::from_bytes_until_nul(&names).unwrap().to_string_lossy();
    eprintln!("told: {newer:?} {known:?} {same:?} unknown {count} {name}");
}

/// Has no standard streams when it begins with the driver, and writes to each of them after that.
#[test]
#[ignore = "is a program that other tests run"]
fn has_no_streams() {
    // SAFETY: streams of this process, which no other thread uses meanwhile.
    let kept = unsafe {
        let kept = [0, 1, 2].map(|stream| libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 10));
        for stream in 0..3 {
            libc::close(stream);
        }
        kept
    };
    let driver = Driver::open(&library(SHIM));
    let init = call!(driver, cuInit(0));
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    let mut at = 0_usize;
    let code = call!(driver, cuMemAlloc_v2(&raw mut at, 1 << 20));
    // SAFETY: as above; bytes of a string, and the copies of the streams.
    let written = unsafe {
        let written = [0, 1, 2].map(|stream| libc::write(stream, c"diary".as_ptr().cast(), 5));
        for (stream, copy) in (0..).zip(kept) {
            libc::dup2(copy, stream);
        }
        written
    };
    eprintln!("told: init {init} alloc {code} written {written:?}");
}

/// Its output would destroy the accounts of all programs.
#[test]
fn closed_stream_does_not_become_the_accounts_file() {
    let job = Job::new("streams");
    let program = "loader::limits::told::has_no_streams";
    let (is_well, text) = run(job.command(program).env_remove("REEF_FAKE_MEMORY"), program);
    assert!(is_well, "{text}");
    assert_eq!(values(&text), "init 0 alloc 0 written [-1, -1, -1]");
}

fn values(text: &str) -> &str {
    text.lines().find_map(|line| line.split_once("told: ")).unwrap_or_else(|| panic!("{text}")).1
}

#[test]
fn call_before_cu_init_does_not_end_the_limit_or_the_memory() {
    let job = Job::new("early");
    let program = "loader::limits::told::asks_before_the_driver_begins";
    let (is_well, text) = run(&mut job.command(program), program);
    assert!(is_well, "{text}");
    assert_eq!(values(&text), "early true alloc 0 over 2");
    assert_eq!(ours(&text), [""; 0]);
}

#[test]
fn program_sees_the_limit_as_its_devices_memory() {
    let job = Job::new("told");
    let program = "loader::limits::told::asks";
    let (_, text) = run(&mut job.command(program), program);
    let left = LIMIT - (2 << 20); // a block, which small allocations share
    assert_eq!(values(&text), format!("init 0 alloc 0 left {left} total {LIMIT} all {LIMIT}"));
    assert_eq!(ours(&text), [""; 0]);
    let (_, text) = run(job.command(program).env_remove("REEF_MEMORY"), "without a limit");
    let (left, all) = ((1 << 30) - (2 << 20), 1 << 30);
    assert_eq!(values(&text), format!("init 0 alloc 0 left {left} total {all} all {all}"));
    let (_, text) = run(job.command(program).env("REEF_MEMORY", "2g"), "more than there is");
    assert_eq!(values(&text), format!("init 0 alloc 0 left {left} total {all} all {all}"));
}

/// Without a daemon, where nothing but memory is looked at.
#[test]
fn limit_applies_to_functions_that_are_looked_up() {
    let job = Job::new("look-up");
    let (_, text) = run(&mut job.command("loader::limits::told::looks_up"), "a runtime's way");
    assert_eq!(values(&text), format!("alloc 2 info 0 left {LIMIT} total {LIMIT}"));
}

/// An address that no header names would pass by the limit.
#[test]
fn variant_that_is_not_known_is_not_found_under_a_limit() {
    let (job, program) = (Job::new("newer"), "loader::limits::told::looks_up_a_newer_variant");
    let newer =
        |command: &mut Command| run(command.env("REEF_FAKE_NEWER", "cuMemAlloc"), program).1;
    let (found, rest) = ("(true, 0, 0) (true, 0, 0)", "unknown 1 cuMemAlloc");
    let text = newer(&mut job.command(program));
    assert_eq!(values(&text), format!("(false, 1, 500) {found} {rest}"));
    let line = "reef: cuMemAlloc: the driver has a variant of it that this library does not know: it is not found, \
                because it would pass by limits and holds";
    assert_eq!(ours(&text), [line]);
    let text = newer(job.command(program).env_remove("REEF_MEMORY"));
    assert_eq!(values(&text), format!("(true, 0, 0) {found} {rest}"));
    let (_, text) = run(&mut job.command(program), program);
    assert_eq!(values(&text), format!("(true, 0, 0) {found} unknown 0 "));
}

#[test]
fn limits_of_clusters_are_kept_by_their_names() {
    let job = Job::new("clusters");
    let run = |set: &[(&str, &str)]| {
        let mut command = job.command("loader::limits::told::asks");
        command.env_remove("REEF_MEMORY").env_remove("REEF_JOB");
        let (_, text) = run(command.envs(set.iter().copied()), "a cluster's");
        values(&text).to_owned()
    };
    let two = 2_u64 << 20;
    let want = format!("init 0 alloc 0 left 0 total {two} all {two}");
    assert_eq!(run(&[("CUDA_DEVICE_MEMORY_LIMIT", "2m")]), want);
    assert_eq!(
        run(&[("CUDA_DEVICE_MEMORY_LIMIT", "9g"), ("CUDA_DEVICE_MEMORY_LIMIT_0", "2m")]),
        want
    );
    std::fs::write(job.folder.join("limits"), "vmem:2097152").unwrap();
    let workspace = job.folder.to_str().unwrap();
    assert_eq!(run(&[("ALNAIR_ID", "abcde"), ("ALNAIR_WORKSPACE_PATH", workspace)]), want);
}

#[test]
fn invalid_limit_is_refused_with_one_line() {
    let job = Job::new("wrong");
    let run = |name: &str, value: &str| {
        let mut command = job.command("loader::limits::told::asks");
        run(command.env(name, value), name).1
    };
    let text = run("REEF_MEMORY", "8GB");
    assert_eq!(
        ours(&text),
        [
            "reef: REEF_MEMORY=8GB: GB isn't one of the units k, m, g, t, KiB, MiB, GiB, TiB (of 1024): the device is refused"
        ]
    );
    assert!(values(&text).starts_with("init 800 alloc 2 "), "{text}");
    let text = run("REEF_MEMORY", "0");
    assert!(text.contains("reef: REEF_MEMORY=0: no program runs in 0 bytes"), "{text}");
    let text = run("REEF_ACCOUNTS", "/proc/nowhere");
    let [line] = ours(&text)[..] else { panic!("{text}") };
    assert!(line.starts_with("reef: accounts in /proc/nowhere: "), "{line}");
    assert!(line.ends_with(": all memory is refused"), "{line}");
    assert!(values(&text).starts_with("init 0 alloc 2 "), "{text}");
    assert!(!exists(&job.accounts()));
}

/// Launches a graph with more memory than the limit.
#[test]
#[ignore = "is a program that another test runs"]
fn launches_too_large_a_graph() {
    let driver = Driver::begin();
    let (graph, mut words, mut node) = (Graph::new(driver, 0), [0_usize; 15], 0_usize);
    (words[0], words[1], words[13]) = (1, 1, 300 << 20);
    let (handle, at) = (graph.handle, words.as_mut_ptr());
    assert_eq!(call!(driver, cuGraphAddMemAllocNode(&raw mut node, handle, 0, 0, at)), 0);
    let exec = graph.instantiate();
    assert_eq!(call!(driver, cuGraphLaunch(exec, 0)), 2);
}

#[test]
fn report_has_the_last_refused_graph() {
    let job = Job::new("refused-graph");
    let report = job.folder.join("report");
    let mut command = job.command("loader::limits::told::launches_too_large_a_graph");
    let output = command.env("REEF_EXPLAIN", &report).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(&report).unwrap();
    let line = "  device 0: the last refused graph needed 300 MiB; 0 bytes were used, 0 bytes of it by graphs and 0 bytes by contexts; graphs of a stream share memory\n";
    assert!(text.contains(line), "{text}");
}

/// Asks for its memory while a stream is captured that the legacy one waits for, and while its own
/// one is. It has freed memory in the legacy stream and in its own before.
#[test]
#[ignore = "is a program that another test runs"]
fn asks_in_captures() {
    let driver = Driver::begin();
    let [mut at, mut stream, mut graph, mut left, mut total] = [0_usize; 5];
    assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 0)), 0);
    for captured in [stream, 2] {
        for of in [1, 2] {
            assert_eq!(call!(driver, cuMemAllocAsync(&raw mut at, 1 << 20, of)), 0);
            assert_eq!(call!(driver, cuMemFreeAsync(at, of)), 0);
        }
        assert_eq!(call!(driver, cuStreamBeginCapture_v2(captured, 2)), 0);
        assert_eq!(call!(driver, cuMemGetInfo_v2(&raw mut left, &raw mut total)), 0);
        assert_eq!(call!(driver, cuStreamEndCapture(captured, &raw mut graph)), 0, "{captured}");
    }
}

#[test]
fn question_for_memory_breaks_no_capture() {
    let (job, program) = (Job::new("captures"), "loader::limits::told::asks_in_captures");
    let mut command = job.command(program);
    let (is_right, text) = run(command.env("REEF_FAKE_LEGACY_BREAKS", "1"), program);
    assert!(is_right, "{text}");
}

/// Launches a graph with more memory of the host than the limit, and keeps it.
#[test]
#[ignore = "is a program that another test runs"]
fn launches_a_graph_with_memory_of_the_host() {
    let driver = Driver::begin();
    let (graph, mut words, mut node) = (Graph::new(driver, 0), [0_usize; 15], 0_usize);
    (words[0], words[1], words[13]) = (1, 2, 300 << 20);
    let (handle, at) = (graph.handle, words.as_mut_ptr());
    assert_eq!(call!(driver, cuGraphAddMemAllocNode(&raw mut node, handle, 0, 0, at)), 0);
    let exec = graph.instantiate();
    assert_eq!(call!(driver, cuGraphLaunch(exec, 0)), 0);
    assert_eq!(call!(driver, cuCtxSynchronize()), 0);
    let [mut left, mut total] = [0_usize; 2];
    assert_eq!(call!(driver, cuMemGetInfo_v2(&raw mut left, &raw mut total)), 0);
    assert_eq!((left, total), (LIMIT as usize, LIMIT as usize));
}

#[test]
fn memory_of_the_host_in_a_graph_is_not_limited() {
    let job = Job::new("graph-of-host");
    let program = "loader::limits::told::launches_a_graph_with_memory_of_the_host";
    let (is_right, text) = run(&mut job.command(program), program);
    assert!(is_right, "{text}");
}

/// Ends a context with a sparse array, which alone has a piece of memory.
#[test]
#[ignore = "is a program that another test runs"]
fn ends_a_context_with_a_sparse_array() {
    let driver = Driver::begin();
    let left = || {
        let [mut left, mut total] = [0_usize; 2];
        assert_eq!(call!(driver, cuMemGetInfo_v2(&raw mut left, &raw mut total)), 0);
        left
    };
    let (before, [mut context, mut array, mut handle]) = (left(), [0_usize; 3]);
    assert_eq!(call!(driver, cuCtxCreate_v2(&raw mut context, 0, 0)), 0);
    let (deep, place) = ([4096_usize, 4096, 0, 1 << 32 | 0x20, 0x40], [1_u32, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(call!(driver, cuArray3DCreate_v2(&raw mut array, deep.as_ptr())), 0);
    assert_eq!(call!(driver, cuMemCreate(&raw mut handle, 64 << 20, place.as_ptr(), 0)), 0);
    let mut region = [0_u64; 12];
    (region[1], region[7], region[8]) = (array as u64, 1, handle as u64);
    assert_eq!(call!(driver, cuMemMapArrayAsync(region.as_ptr(), 1, 0)), 0);
    assert_eq!(call!(driver, cuMemRelease(handle)), 0);
    assert!(left() <= before - (64 << 20));
    assert_eq!(
        (call!(driver, cuCtxDestroy_v2(context)), call!(driver, cuCtxSetCurrent(1))),
        (0, 0)
    );
    assert_eq!(left(), before);
}

#[test]
fn memory_of_a_sparse_array_ends_with_its_context() {
    let job = Job::new("sparse");
    let program = "loader::limits::told::ends_a_context_with_a_sparse_array";
    let (is_right, text) = run(&mut job.command(program), program);
    assert!(is_right, "{text}");
}
