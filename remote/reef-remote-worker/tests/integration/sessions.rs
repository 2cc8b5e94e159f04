//! Sessions that begin, fail and end: of whole processes, and of clients that keep to no rule.

use crate::common::{self, Driver, call, library, until};
use crate::support::{self, CLIENT, children, serve, socket};
use crate::tenants::Deaf;
use reef_remote_calls::{
    ADD_NODE, Advance, Call, CallHost, CopyNode, Define, FindFunction, FreeLeased, HostCalled,
    HostReturned, KernelNode, Launch, Layout, Lease, Link, Load, MigrateBytes, MigrateCommit,
    MigrateMap, OWN_STREAM, SCHEMA, SetCurrent, TableCall, ToDevice, ToHost,
};
use reef_wire::little_endian::{U16, U32, U64};
use reef_wire::{Address, Client, ClientOptions, Endpoint, Handler, Hot, Message, hot_bytes};
use std::collections::HashSet;
use std::ffi::CStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Time within which a server is reached.
const SOON: Duration = Duration::from_secs(60);
/// Time for which a server waits for a client whose connection broke. It closed here.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Task of the program below.
const TASK: &str = "REEF_TEST_TASK";

/// A program that uses the driver's names, and nothing of this workspace.
#[test]
#[ignore = "is a program that other tests run"]
fn program() {
    let driver = Driver::open(&library(CLIENT));
    let code = call!(driver, cuInit(0));
    println!("init {code}");
    if code != 0 {
        return;
    }
    let (mut context, mut memory) = (0_usize, 0_usize);
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 1 << 20)), 0);
    println!("ready");
    let _ = std::io::stdin().read_line(&mut String::new());
    let begin = Instant::now();
    let mut codes = Vec::new();
    while codes.last() != Some(&46) && begin.elapsed() < Duration::from_secs(60) {
        codes.push(call!(driver, cuCtxSynchronize()));
        codes.push(call!(driver, cuMemsetD8_v2(memory, 1, 16)));
    }
    println!("last {}", codes.last().unwrap());
}

fn start(address: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "sessions::program", "--include-ignored", "--nocapture"])
        .env(TASK, "1");
    command.env("REEF_REMOTE", address);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Reads lines up to one that ends with a text.
fn await_line(output: &mut impl BufRead, ending: &str) -> String {
    let mut said = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "no {ending:?} in {said:?}");
        said.push_str(&line);
        if line.trim_end().ends_with(ending) {
            return said;
        }
    }
}

/// A server in a process of its own.
struct Server(Child);

impl Server {
    fn start(address: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reef-remote-worker"));
        let driver = library(common::FAKE);
        command.args(["serve", address, "--driver", driver.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        Self(child)
    }

    /// The one worker that it has.
    fn worker(&self) -> u32 {
        let workers = children(self.0.id());
        assert_eq!(workers.len(), 1, "{workers:?}");
        workers[0]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kill(pid: u32) {
    // SAFETY: a process that this test started.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

#[test]
fn worker_of_a_killed_program_does_not_wait_for_it() {
    let address = socket("killed-client");
    let server = Server::start(&address);
    let (mut child, mut output) = start(&address);
    await_line(&mut output, "ready");
    let worker = server.worker();
    child.kill().unwrap();
    child.wait().unwrap();
    let taken = until("the worker has ended", || children(server.0.id()).is_empty());
    assert!(taken < RECONNECT_TIMEOUT, "worker {worker}: {taken:?}");
    let (mut next, mut output) = start(&address);
    await_line(&mut output, "ready");
    next.kill().unwrap();
    next.wait().unwrap();
}

fn ends_with_46(mut child: Child, mut output: impl BufRead) {
    drop(child.stdin.take()); // it goes on
    await_line(&mut output, "last 46");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said.matches("the remote device is lost").count(), 1, "{said}");
    child.wait().unwrap();
}

#[test]
fn program_of_a_killed_worker_is_told() {
    let address = socket("killed-worker");
    let server = Server::start(&address);
    let (child, mut output) = start(&address);
    await_line(&mut output, "ready");
    kill(server.worker());
    ends_with_46(child, output);
}

#[test]
fn worker_and_program_of_a_killed_server_end() {
    let address = socket("killed-server");
    let server = Server::start(&address);
    let (child, mut output) = start(&address);
    await_line(&mut output, "ready");
    let worker = server.worker();
    drop(server);
    let is_gone = || !std::path::Path::new(&format!("/proc/{worker}/root")).exists();
    until("the worker has ended", is_gone);
    ends_with_46(child, output);
}

#[test]
fn without_a_server_there_is_no_device() {
    for address in ["unix:/nowhere/reef.sock", "127.0.0.1:1", "nonsense", ""] {
        let (child, mut output) = start(address);
        await_line(&mut output, "init 100");
        let said = child.wait_with_output().unwrap().stderr;
        let said = String::from_utf8_lossy(&said);
        assert_eq!(said.matches("reef: no remote device: ").count(), 1, "{address}: {said}");
    }
}

#[test]
fn all_names_are_exported_and_what_is_not_there_is_refused() {
    let driver = support::client("names");
    let missing: Vec<_> =
        reef_cuda_abi::names().filter(|name| driver.symbol(name).is_none()).collect();
    assert_eq!(missing, [""; 0]);
    assert_eq!(call!(driver, cuTexRefGetFormat(0, 0, 0)), 801);
    let find = |name: &CStr, version: usize, flags: usize| {
        let (mut at, mut status) = (7_usize, 7_u32);
        let (name, to, said) = (name.as_ptr(), &raw mut at, &raw mut status);
        let code = call!(driver, cuGetProcAddress_v2(name, to, version, flags, said));
        (code, at, status)
    };
    let own = |name| driver.symbol(name).unwrap();
    assert_eq!(find(c"cuMemAlloc", 12000, 0), (0, own("cuMemAlloc_v2"), 0));
    assert_eq!(find(c"cuLaunchKernel", 12000, 2), (0, own("cuLaunchKernel_ptsz"), 0));
    assert_eq!(find(c"cuLaunchKernel", 12000, 0), (0, own("cuLaunchKernel"), 0));
    for name in [c"cuTexRefGetFormat", c"cuNoSuchFunction"] {
        assert_eq!(find(name, 13000, 0), (0, 0, 1), "{name:?}");
        let mut at = 7_usize;
        let (name, to) = (name.as_ptr(), &raw mut at);
        assert_eq!((call!(driver, cuGetProcAddress(name, to, 11080, 0)), at), (500, 0));
    }
    assert_eq!(find(c"cuLaunchKernelEx", 11000, 0), (0, 0, 2), "it is newer");
}

fn open(address: &str) -> Client {
    open_with(address, Box::new(Deaf))
}

fn open_with(address: &str, handler: Box<dyn Handler>) -> Client {
    let address: Address = address.parse().unwrap();
    let dial = move || address.connect(SOON, None);
    let mut options = ClientOptions::new(SCHEMA, dial);
    options.reconnect_timeout = Duration::ZERO;
    Client::open(options, handler).unwrap()
}

fn code(client: &Client, op: u16, parts: &[&[u8]]) -> u32 {
    let reply = client.call(op, 1, parts).unwrap();
    u32::from_le_bytes(reply[..4].try_into().unwrap())
}

fn table(client: &Client, call: Call, words: &[u64]) -> u32 {
    let reply = reply(client, call, words);
    u32::from_le_bytes(reply[..4].try_into().unwrap())
}

/// Makes a call of the table. The reply has the code, and then the results.
fn reply(client: &Client, call: Call, words: &[u64]) -> Vec<u8> {
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    client.call(TableCall::OP, 1, &[&table_call(call), &words]).unwrap()
}

/// The first result of a call of the table that succeeds.
fn result(client: &Client, call: Call, words: &[u64]) -> u64 {
    let reply = reply(client, call, words);
    assert_eq!(reply[..4], [0; 4], "{call:?}");
    u64::from_le_bytes(reply[8..16].try_into().unwrap())
}

#[test]
fn handles_that_are_not_there_are_refused() {
    let client = open(&serve(&socket("hostile-handles")));
    assert_eq!(table(&client, Call::cuDevicePrimaryCtxRetain, &[32, 0]), 0);
    // The worker has chosen this number: the first one of its own.
    let context = SetCurrent { context: U64::new(1 << 46 | 1 << 4) };
    assert_eq!(code(&client, SetCurrent::OP, &[hot_bytes(&context)]), 0);
    assert_eq!(table(&client, Call::cuCtxSynchronize, &[]), 0);
    for id in [3, 32, 0xdead_beef, u64::MAX, 1 << 63, 1 << 46] {
        assert_eq!(table(&client, Call::cuStreamSynchronize, &[id]), 400, "{id:#x}");
        assert_eq!(table(&client, Call::cuEventRecord, &[id, 1]), 400, "{id:#x}");
        assert_eq!(table(&client, Call::cuGraphLaunch, &[id, 1]), 1, "{id:#x}");
        assert_eq!(table(&client, Call::cuCtxDestroy_v2, &[id]), 201, "{id:#x}");
    }
    assert_eq!(table(&client, Call::cuStreamCreate, &[64, 0]), 0);
    assert_eq!(table(&client, Call::cuEventRecord, &[64, 1]), 400, "a stream is not an event");
    assert_eq!(table(&client, Call::cuStreamSynchronize, &[64]), 0);
    assert_eq!(table(&client, Call::cuStreamDestroy_v2, &[64]), 0);
    assert_eq!(table(&client, Call::cuStreamDestroy_v2, &[64]), 400, "it has ended");
    // Ten nodes are said to follow; there is one.
    assert_eq!(table(&client, Call::cuGraphCreate, &[80, 0]), 0);
    assert_eq!(table(&client, Call::cuGraphAddEmptyNode, &[96, 80, 0, 10]), 1);
}

/// As [`open`], with a context.
fn begin(address: &str) -> Client {
    begin_with(address, Box::new(Deaf))
}

fn begin_with(address: &str, handler: Box<dyn Handler>) -> Client {
    let client = open_with(address, handler);
    assert_eq!(table(&client, Call::cuDevicePrimaryCtxRetain, &[32, 0]), 0);
    let context = SetCurrent { context: U64::new(1 << 46 | 1 << 4) };
    assert_eq!(code(&client, SetCurrent::OP, &[hot_bytes(&context)]), 0);
    client
}

/// Loads an image. The reply has the code, and then the logs.
fn load(client: &Client, id: u64, options: &[(u64, u64)], image: &[u8]) -> (u32, Vec<u8>) {
    load_as(client, 0, id, options, image)
}

fn load_as(
    client: &Client,
    is_library: u32,
    id: u64,
    options: &[(u64, u64)],
    image: &[u8],
) -> (u32, Vec<u8>) {
    let options_count = U32::new(options.len() as u32);
    let head = Load { id: U64::new(id), is_library: U32::new(is_library), options: options_count };
    let pairs = options.iter().flat_map(|(name, value)| [*name, *value]);
    let pairs: Vec<u8> = pairs.flat_map(u64::to_le_bytes).collect();
    let reply = client.call(Load::OP, 1, &[hot_bytes(&head), &pairs, image]).unwrap();
    (u32::from_le_bytes(reply[..4].try_into().unwrap()), reply[8..].to_vec())
}

const TEXT: &[u8] = b".version 8.0\n.target sm_70\n\0";

/// No option makes the driver write where the client says, and a log is what the driver wrote.
#[test]
fn options_of_a_load_name_no_memory() {
    let client = begin(&serve(&socket("hostile-options")));
    let wild = 0x4141_4141_4000;
    for options in [
        &[(1 << 32 | 5, wild), (1 << 32 | 6, 64)][..],
        &[(5, 1 << 32 | 5), (6, 64)],
        &[(17, wild), (18, wild), (19, 1)],
        &[(25, wild), (26, 1)],
        &[(27, wild), (28, 1)],
        &[(34, wild)],
        &[(0, 1 << 32)],
    ] {
        assert_eq!(load(&client, 100, options, TEXT).0, 1, "{options:?}");
    }
    // A place for a log is the server's, of the first size.
    let options = [(5, 1), (6, 8), (6, 1 << 20), (5, 1), (3, 0), (4, 64), (2, 0)];
    let wrong = b".version 8.0\n.target sm_70\n.visible .entry\0";
    let (code, logs) = load(&client, 100, &options, wrong);
    assert_eq!((code, &logs[..8]), (218, &3_u64.to_le_bytes()[..]));
    assert!(logs.ends_with(b"ptxas fa"), "{:?}", String::from_utf8_lossy(&logs));
    let (code, logs) = load(&client, 100, &options, TEXT);
    let said = String::from_utf8_lossy(&logs).into_owned();
    assert!(code == 0 && said.contains("ptxas info    : it was read"), "{code}: {said}");
}

/// The worker is not told that a thread of its client has ended.
#[test]
fn own_streams_of_ended_threads_are_used_again() {
    let client = begin(&serve(&socket("many-threads")));
    let context = SetCurrent { context: U64::new(1 << 46 | 1 << 4) };
    let (head, words) = (table_call(Call::cuStreamGetId), [OWN_STREAM, 1].map(u64::to_le_bytes));
    let mut streams = HashSet::new();
    for lane in 2..1000 {
        client.call(SetCurrent::OP, lane, &[hot_bytes(&context)]).unwrap();
        let reply = client.call(TableCall::OP, lane, &[&head, &words.concat()]).unwrap();
        assert_eq!(reply[..4], [0; 4], "thread {lane}");
        streams.insert(reply[8..16].to_vec());
    }
    assert_eq!(streams.len(), 256);
}

/// Of an address a client is told no handle of the worker's driver, and nothing of other memory.
#[test]
fn attributes_and_ranges_are_told_of_own_memory_alone() {
    let client = begin(&serve(&socket("hostile-pointers")));
    let at = result(&client, Call::cuMemAlloc_v2, &[1, 64]);
    let attribute = |which, at| table(&client, Call::cuPointerGetAttribute, &[1, which, at]);
    let range = |at| table(&client, Call::cuMemGetAddressRange_v2, &[1, 1, at]);
    assert_eq!([attribute(2, at), attribute(12, at + 63), range(at + 63)], [0; 3]);
    assert_eq!([1, 4, 5, 16, 17, 19, 99].map(|which| attribute(which, at)), [1; 7]);
    assert_eq!([attribute(2, at + 64), range(at + 64)], [1, 500]);
    assert_eq!(table(&client, Call::cuMemFree_v2, &[at]), 0);
    assert_eq!([attribute(2, at), range(at)], [1, 500]);
}

/// Of an image the driver reads what its headers name: all of it has come, or it is refused.
#[test]
fn image_that_is_cut_off_is_refused() {
    let client = begin(&serve(&socket("hostile-images")));
    let fatbin = |len: u64| {
        let head = [0xba55_ed50_u32.to_le_bytes(), [1, 0, 16, 0]].concat();
        [&head[..], &len.to_le_bytes()].concat()
    };
    let mut elf = vec![0_u8; 128];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[18] = 190; // EM_CUDA
    elf[40] = 64; // its section table
    (elf[58], elf[60], elf[68]) = (64, 1, 1);
    elf[64 + 32..64 + 40].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    // The second word of a wrapper is an address of a fat binary.
    let wrapper = [0x4662_43b1_u32.to_le_bytes(), [1, 0, 0, 0], [0x41; 4], [0x41; 4]].concat();
    for image in [fatbin(1 << 30), fatbin(u64::MAX), elf, wrapper, b"x".to_vec()] {
        assert_eq!(load(&client, 100, &[], &image).0, 200, "{image:?}");
    }
    assert_eq!(load(&client, 100, &[], &fatbin(0)).0, 0);
    // Also in a link; another kind of image is none.
    let link = |kind: u64, image: &[u8]| {
        let head = Link { options: U32::new(0), images: U32::new(1) };
        let words = [kind, image.len() as u64].map(u64::to_le_bytes).concat();
        let padding = vec![0; image.len().next_multiple_of(8) - image.len()];
        code(&client, Link::OP, &[hot_bytes(&head), &words, image, &padding, &[0; 8]])
    };
    assert_eq!([link(2, &fatbin(1 << 30)), link(9, TEXT)], [200, 1]);
}

/// Launches with one attribute, whose value begins with these words.
fn launch_with(client: &Client, function: u64, id: u32, words: [u64; 2]) -> u32 {
    let one = U32::new(1);
    let head = Launch {
        function: U64::new(function),
        stream: U64::new(0),
        grid_x: one,
        grid_y: one,
        grid_z: one,
        block_x: one,
        block_y: one,
        block_z: one,
        shared: U32::new(0),
        attributes: one,
        cooperative: U32::new(0),
        reserved: U32::new(0),
    };
    let mut attribute = [0; 72];
    attribute[..4].copy_from_slice(&id.to_le_bytes());
    attribute[8..24].copy_from_slice(&words.map(u64::to_le_bytes).concat());
    code(client, Launch::OP, &[hot_bytes(&head), &attribute, &[0; 16]])
}

/// A kernel's function is the library's, and the context's that it was asked for in.
#[test]
fn function_of_a_kernel_ends_with_its_library_or_context() {
    let client = begin(&serve(&socket("hostile-functions")));
    let text = b".version 8.0\n.target sm_70\n.visible .entry k(.param .u64 a) { ret; }\n\0";
    let attribute = |function| table(&client, Call::cuFuncGetAttribute, &[1, 0, function]);
    let function = |library, kernel| {
        assert_eq!(load_as(&client, 1, library, &[], text).0, 0);
        let (id, of) = (U64::new(kernel), U64::new(library));
        let find = FindFunction { id, of, is_kernel: U32::new(1), reserved: U32::new(0) };
        assert_eq!(code(&client, FindFunction::OP, &[hot_bytes(&find), b"k"]), 0);
        let function = result(&client, Call::cuKernelGetFunction, &[0, kernel]);
        assert_eq!(attribute(function), 0);
        function
    };
    let unloaded = function(100, 200);
    assert_eq!(table(&client, Call::cuLibraryUnload, &[100]), 0);
    assert_eq!(attribute(unloaded), 400);
    let reset = function(101, 201);
    assert_eq!(table(&client, Call::cuDevicePrimaryCtxReset_v2, &[0]), 0);
    assert_eq!([attribute(reset), attribute(201)], [400, 0], "the kernel is the library's alone");
}

/// Attributes are those that the server knows; one with a handle or an address inside is none.
#[test]
fn launch_attribute_with_a_handle_is_refused() {
    let client = begin(&serve(&socket("hostile-attributes")));
    let text = b".version 8.0\n.target sm_70\n.visible .entry k(.param .u64 a) { ret; }\n\0";
    assert_eq!(load(&client, 100, &[], text).0, 0);
    let find = FindFunction {
        id: U64::new(200),
        of: U64::new(100),
        is_kernel: U32::new(0),
        reserved: U32::new(0),
    };
    assert_eq!(code(&client, FindFunction::OP, &[hot_bytes(&find), b"k"]), 0);
    let wild = [0x4343_4343_4343_4343, 0];
    for (id, words) in [(3, wild), (7, wild), (12, wild), (13, wild), (99, wild), (1, [wild[0], 8])]
    {
        assert_eq!(launch_with(&client, 200, id, words), 1, "attribute {id}");
    }
    for id in [0, 2, 4, 6, 8, 10, 14] {
        assert_eq!(launch_with(&client, 200, id, [1, 0]), 0, "attribute {id}");
    }
}

/// Addresses that the session was not given: of the worker's code and host memory, and wild ones.
#[test]
fn memory_that_is_not_the_sessions_is_refused() {
    let client = begin(&serve(&socket("hostile-addresses")));
    let at = result(&client, Call::cuMemAlloc_v2, &[1, 64]);
    let of_worker = 0x40_0000; // where the fake driver and a real one would take it
    for other in [of_worker, 8, u64::MAX - 8, at - 1, at + 60] {
        for (call, words) in [
            (Call::cuMemcpyDtoDAsync_v2, &[other, at, 8, 1][..]),
            (Call::cuMemcpyDtoDAsync_v2, &[at, other, 8, 1]),
            (Call::cuMemsetD8Async, &[other, 7, 8, 1]),
            (Call::cuMemsetD16Async, &[other, 7, 4, 1]),
            (Call::cuMemsetD32Async, &[other, 7, 2, 1]),
            (Call::cuMemsetD2D8Async, &[other, 16, 7, 8, 1, 1]),
            (Call::cuMemsetD2D32Async, &[other, 16, 7, 2, 1, 1]),
            (Call::cuStreamWriteValue64_v2, &[1, other, 7, 0]),
            (Call::cuStreamWaitValue64_v2, &[1, other, 0, 0]),
            (Call::cuMemFree_v2, &[other]),
            (Call::cuMemFreeAsync, &[other, 1]),
        ] {
            assert_eq!(table(&client, call, words), 1, "{call:?} {other:#x}");
        }
        let to = ToDevice { to: U64::new(other), stream: U64::new(0) };
        assert_eq!(code(&client, ToDevice::OP, &[hot_bytes(&to), &[7; 8]]), 1, "{other:#x}");
        let (bytes, stream) = (U64::new(8), U64::new(0));
        let from = ToHost { from: U64::new(other), bytes, stream };
        assert_eq!(code(&client, ToHost::OP, &[hot_bytes(&from)]), 1, "{other:#x}");
    }
    assert_eq!(table(&client, Call::cuMemsetD8Async, &[at, 7, 64, 1]), 0);
    // Nodes of graphs.
    assert_eq!(table(&client, Call::cuGraphCreate, &[80, 0]), 0);
    let fill = |id, to| {
        let params = [40, to, 0, 1 << 32, 8, 1];
        let words = [&[id, 80, 0, 0][..], &params, &[1 << 46 | 1 << 4]].concat();
        table(&client, Call::cuGraphAddMemsetNode, &words)
    };
    assert_eq!([fill(96, of_worker), fill(112, at)], [1, 0]);
    // A place for nodes, which no client has: the word is that of the count.
    let nodes = reply(&client, Call::cuGraphGetNodes, &[80, 0]);
    assert_eq!((nodes[0], nodes.len()), (0, 8), "no place for a count either");
    // Freed memory is not the session's any more.
    assert_eq!(table(&client, Call::cuMemFree_v2, &[at]), 0);
    assert_eq!(table(&client, Call::cuMemsetD8Async, &[at, 7, 64, 1]), 1);
    assert_eq!(table(&client, Call::cuMemFree_v2, &[0]), 0);
}

/// Makes a context with the number 160 for the client's second thread.
fn begin_second(client: &Client) {
    assert_eq!(table(client, Call::cuCtxCreate_v2, &[160, 0, 0]), 0);
    let context = SetCurrent { context: U64::new(160) };
    client.call(SetCurrent::OP, 2, &[hot_bytes(&context)]).unwrap();
}

/// As [`table`], in the client's second thread.
fn table_in_second(client: &Client, call: Call, words: &[u64]) -> u32 {
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let reply = client.call(TableCall::OP, 2, &[&table_call(call), &words]).unwrap();
    u32::from_le_bytes(reply[..4].try_into().unwrap())
}

/// Rows that overlap, or that are more than there are addresses, are refused.
#[test]
fn rows_that_overlap_or_overflow_are_refused() {
    let client = begin(&serve(&socket("hostile-rows")));
    let at = result(&client, Call::cuMemAlloc_v2, &[1, 4096]);
    let fill = |pitch, width, height| {
        table(&client, Call::cuMemsetD2D8Async, &[at, pitch, 7, width, height, 1])
    };
    assert_eq!([fill(0, 64, 1), fill(64, 64, 64), fill(0, 0, 9)], [0; 3]);
    for (pitch, width, height) in [
        (0, 64, 2),
        (63, 64, 2),
        (1 << 63, 64, 3),
        (64, 64, 65),
        (64, 64, u64::MAX),
        (u64::MAX, 1, u64::MAX),
    ] {
        assert_eq!(fill(pitch, width, height), 1, "{pitch} {width} {height}");
    }
    assert_eq!(table(&client, Call::cuGraphCreate, &[80, 0]), 0);
    let copy = |id, side: [u64; 7], size: [u64; 3]| {
        let head = CopyNode {
            what: U32::new(ADD_NODE),
            after: U32::new(0),
            node: U64::new(id),
            of: U64::new(80),
            context: U64::new(1 << 46 | 1 << 4),
        };
        let words = side.iter().chain(&side).chain(&size).flat_map(|word| word.to_le_bytes());
        let words: Vec<u8> = words.collect();
        code(&client, CopyNode::OP, &[hot_bytes(&head), &words])
    };
    assert_eq!(copy(96, [0, 0, 0, 0, at, 0, 0], [64, 1, 1]), 0);
    assert_eq!(copy(112, [0, 1, 1, 0, at, 64, 8], [64, 2, 2]), 0);
    assert_eq!(copy(128, [0, 5, 0, 0, at, 0, 0], [64, 1, 1]), 1, "rows without a pitch");
    assert_eq!(copy(128, [0, 0, 3, 0, at, 64, 0], [64, 1, 1]), 1, "slices without rows");
    assert_eq!(copy(128, [0, 0, 0, 0, at, 64, 1 << 60], [64, 1, 3]), 1);
}

/// Core dumps of the device are files, which the driver writes where the client says.
#[test]
fn context_with_core_dumps_is_refused() {
    let client = begin(&serve(&socket("hostile-flags")));
    for flags in [0x20, 0x40, 0x100] {
        assert_eq!(table(&client, Call::cuCtxCreate_v2, &[160, flags, 0]), 801, "{flags:#x}");
        for call in [Call::cuDevicePrimaryCtxSetFlags, Call::cuDevicePrimaryCtxSetFlags_v2] {
            assert_eq!(table(&client, call, &[0, flags]), 801, "{call:?} {flags:#x}");
        }
    }
    assert_eq!(table(&client, Call::cuCtxCreate_v2, &[160, 0x94, 0]), 0);
}

/// Variables are memory of their context's.
#[test]
fn address_of_a_variable_ends_with_its_context() {
    let client = begin(&serve(&socket("hostile-variables")));
    let text = b".version 8.0\n.target sm_70\n.global .align 8 .b8 table[64];\n\0";
    let name = u64::from_le_bytes(*b"table\0\0\0");
    let fill = |at| table(&client, Call::cuMemsetD8Async, &[at, 7, 8, 1]);
    assert_eq!(load(&client, 100, &[], text).0, 0);
    assert_eq!(load_as(&client, 1, 101, &[], text).0, 0);
    let of_module = result(&client, Call::cuModuleGetGlobal_v2, &[1, 1, 100, 5, name]);
    let of_library = result(&client, Call::cuLibraryGetGlobal, &[1, 1, 101, 5, name]);
    assert_eq!([fill(of_module), fill(of_library)], [0; 2]);
    assert_eq!(table(&client, Call::cuDevicePrimaryCtxReset_v2, &[0]), 0);
    assert_eq!([fill(of_module), fill(of_library)], [1; 2]);
}

/// A context that begins while a former one ends has nothing of that one.
#[test]
fn memory_ends_with_a_context_that_is_retained_meanwhile() {
    let client = begin(&serve(&socket("hostile-reset")));
    let at = result(&client, Call::cuMemAlloc_v2, &[1, 4]);
    assert_eq!(table(&client, Call::cuStreamCreate, &[64, 1]), 0);
    begin_second(&client);
    assert_eq!(table_in_second(&client, Call::cuStreamCreate, &[176, 1]), 0);
    let enter = |context| {
        let context = SetCurrent { context: U64::new(context) };
        assert_eq!(code(&client, SetCurrent::OP, &[hot_bytes(&context)]), 0);
    };
    // The word is the other context's: memory that is about to end is refused.
    enter(160);
    let word = result(&client, Call::cuMemAlloc_v2, &[1, 4]);
    assert_eq!(table(&client, Call::cuMemsetD8Async, &[word, 0, 4, 1]), 0);
    assert_eq!(table(&client, Call::cuCtxSynchronize, &[]), 0);
    enter(1 << 46 | 1 << 4);
    assert_eq!(table(&client, Call::cuStreamWaitValue32_v2, &[64, word, 1, 1]), 0);
    let reset = [&table_call(Call::cuDevicePrimaryCtxReset_v2)[..], &0_u64.to_le_bytes()].concat();
    let reset = client.begin_call(TableCall::OP, 1, &[&reset]).unwrap();
    assert_eq!(table(&client, Call::cuDevicePrimaryCtxRetain, &[32, 0]), 201, "it is ending");
    assert_eq!(table_in_second(&client, Call::cuStreamWriteValue32_v2, &[176, word, 1, 0]), 0);
    assert_eq!(client.finish_call(reset).unwrap()[..4], [0; 4]);
    assert_eq!(table_in_second(&client, Call::cuMemsetD8Async, &[at, 7, 4, 176]), 1);
    assert_eq!(table(&client, Call::cuDevicePrimaryCtxRetain, &[32, 0]), 0);
}

/// Addresses of a graph's memory may be anything's when no graph has them any more.
#[test]
fn memory_of_a_graph_ends_with_its_last_graph() {
    let client = begin(&serve(&socket("hostile-graphs")));
    assert_eq!(table(&client, Call::cuStreamCreate, &[64, 1]), 0);
    assert_eq!(table(&client, Call::cuStreamBeginCapture_v2, &[64, 2]), 0);
    let at = result(&client, Call::cuMemAllocAsync, &[1, 64, 64]);
    let fill = |stream| table(&client, Call::cuMemsetD8Async, &[at, 7, 64, stream]);
    assert_eq!(fill(64), 0);
    let graph = result(&client, Call::cuStreamEndCapture, &[64, 80]);
    assert_eq!(table(&client, Call::cuGraphInstantiateWithFlags, &[96, graph, 0]), 0);
    assert_eq!(table(&client, Call::cuGraphDestroy, &[graph]), 0);
    assert_eq!(fill(1), 0, "an executable graph has it");
    assert_eq!(table(&client, Call::cuGraphExecDestroy, &[96]), 0);
    assert_eq!(fill(1), 1);
}

/// Receiver of calls of host functions: token, number, and whether it was the last one.
struct HostFunctions(Sender<(u64, u64, bool)>);

impl Handler for HostFunctions {
    fn handle(&mut self, message: &Message<'_>, _: &Endpoint) -> reef_wire::Result<()> {
        if message.op == HostCalled::OP {
            let called = HostCalled::split(message.body)?.0;
            let is_once = called.is_once.get() == 1;
            let _ = self.0.send((called.token.get(), called.call.get(), is_once));
        }
        Ok(())
    }
}

/// So that the client forgets those that nothing calls again.
#[test]
fn worker_says_which_host_functions_it_calls_once() {
    let (sender, calls) = channel();
    let address = serve(&socket("host-functions"));
    let client = begin_with(&address, Box::new(HostFunctions(sender)));
    assert_eq!(table(&client, Call::cuStreamCreate, &[64, 1]), 0);
    let put = |token| {
        let call = CallHost { stream: U64::new(64), token: U64::new(token) };
        assert_eq!(code(&client, CallHost::OP, &[hot_bytes(&call)]), 0);
    };
    let next = || {
        let (token, call, is_once) = calls.recv_timeout(Duration::from_secs(60)).unwrap();
        let returned = HostReturned { call: U64::new(call) };
        client.post(HostReturned::OP, 0, &[hot_bytes(&returned)]).unwrap();
        (token, is_once)
    };
    put(7);
    assert_eq!(next(), (7, true));
    assert_eq!(table(&client, Call::cuStreamBeginCapture_v2, &[64, 2]), 0);
    put(8);
    let graph = result(&client, Call::cuStreamEndCapture, &[64, 80]);
    assert_eq!(table(&client, Call::cuGraphInstantiateWithFlags, &[96, graph, 0]), 0);
    for _ in 0..2 {
        assert_eq!(table(&client, Call::cuGraphLaunch, &[96, 64]), 0);
        assert_eq!(next(), (8, false), "a graph may call it again");
    }
}

/// A pool is its device's, whichever context was current when its name was told.
#[test]
fn pool_stays_when_a_context_ends() {
    let client = begin(&serve(&socket("pools")));
    begin_second(&client);
    assert_eq!(table_in_second(&client, Call::cuDeviceGetDefaultMemPool, &[48, 0]), 0);
    let pool = result(&client, Call::cuDeviceGetDefaultMemPool, &[48, 0]);
    assert_eq!(table(&client, Call::cuCtxDestroy_v2, &[160]), 0);
    assert_eq!(table(&client, Call::cuMemPoolGetAttribute, &[pool, 4, 1]), 0);
}

/// Number of threads of a process.
fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// A client whose calls block takes a bounded number of threads, and other calls are answered.
#[test]
fn blocked_calls_take_a_bounded_number_of_threads() {
    let address = socket("hostile-threads");
    let server = Server::start(&address);
    let client = begin(&address);
    let word = client.call(
        TableCall::OP,
        1,
        &[&table_call(Call::cuMemAlloc_v2), &[1, 4].map(u64::to_le_bytes).concat()],
    );
    let word = u64::from_le_bytes(word.unwrap()[8..16].try_into().unwrap());
    assert_eq!(table(&client, Call::cuMemsetD8Async, &[word, 0, 4, 1]), 0);
    assert_eq!(table(&client, Call::cuStreamCreate, &[64, 1]), 0);
    assert_eq!(table(&client, Call::cuCtxSynchronize, &[]), 0);
    assert_eq!(table(&client, Call::cuStreamWaitValue32_v2, &[64, word, 1, 1]), 0);
    let before = threads(server.worker());
    let wait = [&table_call(Call::cuStreamSynchronize)[..], &64_u64.to_le_bytes()].concat();
    let calls: Vec<u64> =
        (0..1000).map(|_| client.begin_call(TableCall::OP, 1, &[&wait]).unwrap()).collect();
    // Messages are handled in order: all of these have come to their threads, or wait for one.
    assert_eq!(table(&client, Call::cuStreamQuery, &[64]), 600);
    let taken = threads(server.worker()) - before;
    assert!((200..=257).contains(&taken), "{taken} threads for 1,000 calls");
    assert_eq!(table(&client, Call::cuStreamWriteValue32_v2, &[1, word, 1, 0]), 0);
    for call in calls {
        assert_eq!(client.finish_call(call).unwrap()[..4], [0; 4]);
    }
}

fn table_call(call: Call) -> Vec<u8> {
    let (reserved, reserved2) = (U16::new(0), U32::new(0));
    hot_bytes(&TableCall { call: U16::new(call as u16), reserved, reserved2 }).to_vec()
}

/// Connections whose clients say nothing keep no other one out, and take a bounded number of
/// threads.
#[test]
fn silent_connections_keep_no_client_out() {
    let address = socket("hostile-silence");
    let server = Server::start(&address);
    let path = address.strip_prefix("unix:").unwrap();
    let silent: Vec<_> = (0..400).map(|_| UnixStream::connect(path).unwrap()).collect();
    let client = open(&address);
    until("the oldest connections are closed", || threads(server.0.id()) < 290);
    assert_eq!(table(&client, Call::cuDevicePrimaryCtxRetain, &[32, 0]), 0);
    drop(silent);
}

/// Bodies that no client of ours sends: each ends its own session, and no other one.
#[test]
fn messages_that_cannot_be_end_their_session_wait_for_turn() {
    let address = serve(&socket("hostile-messages"));
    let well = open(&address);
    let long = vec![0xff_u8; 4096];
    let ops = [
        SetCurrent::OP,
        TableCall::OP,
        Launch::OP,
        ToDevice::OP,
        ToHost::OP,
        Load::OP,
        FindFunction::OP,
        KernelNode::OP,
        CopyNode::OP,
        Layout::OP,
        CallHost::OP,
        HostReturned::OP,
        Lease::OP,
        FreeLeased::OP,
        Link::OP,
        MigrateMap::OP,
        MigrateBytes::OP,
        MigrateCommit::OP,
        Define::OP,
        Advance::OP,
        99,
    ];
    for op in ops {
        for body in [&[][..], &[1], &long[..9], &long[..64], &long] {
            let client = open(&address);
            // An answer or the session's end, and not a hang.
            let _ = client.call(op, 7, &[body]);
        }
    }
    assert_eq!(table(&well, Call::cuDevicePrimaryCtxRetain, &[32, 0]), 0);
}

/// A template of one launch, with the lengths of its shape, words and payload.
fn template(kind: u16, lens: [u32; 3]) -> Vec<u8> {
    let [shape, words, payload] = lens;
    let head = [&kind.to_le_bytes()[..], &(shape as u16).to_le_bytes()].concat();
    let lens = [words.to_le_bytes(), payload.to_le_bytes()].concat();
    [head, lens, vec![0; (shape + words) as usize]].concat()
}

/// Templates and records that no client of ours sends: each is refused with its reason.
#[test]
fn hostile_templates_and_records_end_their_session() {
    let address = serve(&socket("hostile-records"));
    let define = |number: u16, definition: &[u8]| {
        let template = U16::new(number);
        let head = Define { template, reserved: U16::new(0), reserved2: U32::new(0) };
        [hot_bytes(&head), definition].concat()
    };
    let copy = define(0, &template(ToDevice::OP, [0, 16, 8]));
    for (first, record, what) in [
        (define(256, &template(Launch::OP, [8, 0, 0])), &[][..], "below 256"),
        (define(0, &template(Advance::OP, [8, 0, 0])), &[], "cannot have operation"),
        (define(0, &template(SetCurrent::OP, [8, 0, 0])), &[], "cannot have operation"),
        (copy.clone(), &[1, 0, 0, 0, 1], "no template 1"),
        (copy.clone(), &[0, 0, 0, 0, 1], "must have its payload"),
        (copy.clone(), &[0, 0, 0, 0, 192, 0, 1, 2], "8 more bytes"),
        (copy.clone(), &[0, 0, 0, 0, 192, 1, 2, 0], "no word 2"),
        (copy, &[0, 0, 1, 0, 1], "within 1 operations"),
        (define(0, &template(ToDevice::OP, [0, 24, 0])), &[0, 0, 0, 0, 1], "must be its payload"),
        (define(0, &template(Launch::OP, [8, 0, 2])), &[0, 0, 0, 0, 192, 0, 7, 7], "a payload"),
        (define(0, &template(Launch::OP, [8, 0, 0])), &[0, 0, 0, 0, 1], "must have"),
    ] {
        let client = open(&address);
        // The session may have ended before the second one.
        let sent = client.post(Define::OP, 1, &[&first]);
        let said = sent.and_then(|_| client.call(Advance::OP, 1, &[record]));
        let said = said.unwrap_err().to_string();
        assert!(said.contains(what), "{what}: {said}");
    }
}
