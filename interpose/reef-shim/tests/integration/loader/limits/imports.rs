//! Memory that another process has exported: that one is charged with it, and the importer once it
//! has ended.

use super::program::{BEGUN, WANTS};
use super::{Job, LIMIT, begun, ended, piped};
use crate::common::{self, Driver, SOON, call};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

/// Kind of export.
const HOW: &str = "REEF_TEST_EXPORT";
/// Address at which the importer maps memory.
const AT: usize = 1 << 40;
/// A process that is not ended ends itself.
const LIFE: u32 = 300;
/// Maximum links of a process to its exported memory.
const LINKS: usize = 1024;

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(BEGUN).unwrap())
}

fn export_kind() -> String {
    std::env::var(HOW).unwrap()
}

fn begin() -> Driver {
    // SAFETY: ends this process after some time, in any case.
    unsafe { libc::alarm(LIFE) };
    Driver::begin()
}

/// Sends or receives words, and a file in the last word of the control message.
fn pass(
    data: &mut [usize; 8],
    control: &mut [usize; 3],
    call: impl FnOnce(*mut libc::msghdr) -> isize,
) {
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: 64 };
    // SAFETY: all zero is a value of this struct.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 24);
    assert_eq!(call(&raw mut message), 64);
}

fn send(to: &UnixStream, file: i32, mut data: [usize; 8]) {
    let mut control = [20, 1 << 32 | 1, file as usize]; // its length, SOL_SOCKET and SCM_RIGHTS
    // SAFETY: the message and its parts live during the call.
    pass(&mut data, &mut control, |message| unsafe { libc::sendmsg(to.as_raw_fd(), message, 0) });
}

fn receive(from: &UnixStream) -> (i32, [usize; 8]) {
    let (mut data, mut control) = ([0; 8], [0; 3]);
    // SAFETY: the message and its parts live during the call.
    pass(&mut data, &mut control, |message| unsafe { libc::recvmsg(from.as_raw_fd(), message, 0) });
    (control[2] as i32, data)
}

/// `CUipcMemHandle`, which is passed by value.
#[repr(C)]
struct Handle([usize; 8]);

fn open(driver: Driver, handle: [usize; 8]) -> usize {
    let (function, mut at) = (driver.symbol("cuIpcOpenMemHandle_v2").unwrap(), 0);
    // SAFETY: the driver's function of this name has these arguments.
    let code = unsafe {
        let call: unsafe extern "C" fn(*mut usize, Handle, u32) -> u32 =
            std::mem::transmute(function);
        call(&raw mut at, Handle(handle), 1)
    };
    assert_eq!(code, 0);
    at
}

/// Bytes of a block, which small allocations share.
const BLOCK: u64 = 2 << 20;

/// Returns the bytes that are exported: all of the limit, less a block and the room for another
/// one, or a small allocation.
fn exported_bytes() -> usize {
    match export_kind().as_str() {
        "small" => 512,
        "many" => (LIMIT - 2 * BLOCK) as usize,
        _ => LIMIT as usize,
    }
}

fn is_ipc() -> bool {
    matches!(export_kind().as_str(), "ipc" | "small" | "many")
}

/// Gets handles of more small allocations than have links.
fn get_many(driver: Driver) {
    let (mut at, mut handle) = (0_usize, [0_usize; 8]);
    for _ in 0..LINKS + 8 {
        assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut at, 512)), 0);
        assert_eq!(call!(driver, cuIpcGetMemHandle(handle.as_mut_ptr(), at)), 0);
    }
}

/// Exports memory, and stays.
#[test]
#[ignore = "is a program that other tests run"]
fn exports() {
    let (driver, bytes) = (begin(), exported_bytes());
    let socket = UnixStream::connect(folder().join("socket")).unwrap();
    let ([mut from, mut at], mut file, mut data) = ([0_usize; 2], 0_i32, [0_usize; 8]);
    let (source, to, address) = (&raw mut from, &raw mut file, &raw mut at);
    let mut place = [0_u32; 24];
    place[..3].copy_from_slice(&[1, 1, 1]);
    if is_ipc() {
        file = socket.as_raw_fd(); // no file has to do with it
        assert_eq!(call!(driver, cuMemAlloc_v2(address, bytes)), 0);
        assert_eq!(call!(driver, cuIpcGetMemHandle(data.as_mut_ptr(), at)), 0);
        if export_kind() == "many" {
            get_many(driver);
        }
    } else if export_kind() == "pool" {
        assert_eq!(call!(driver, cuMemPoolCreate(source, place.as_ptr())), 0);
        assert_eq!(call!(driver, cuMemPoolExportToShareableHandle(to, from, 1, 0)), 0);
        assert_eq!(call!(driver, cuMemAllocFromPoolAsync(address, bytes, from, 0)), 0);
        assert_eq!(call!(driver, cuMemPoolExportPointer(data.as_mut_ptr(), at)), 0);
    } else {
        assert_eq!(call!(driver, cuMemCreate(source, bytes, place.as_ptr(), 0)), 0);
        assert_eq!(call!(driver, cuMemExportToShareableHandle(to, from, 1, 0)), 0);
    }
    send(&socket, file, data);
    std::thread::sleep(Duration::from_secs(u64::from(LIFE))); // sleep: until it is killed
}

/// Imports what another process sends, and releases it when a second one connects.
#[test]
#[ignore = "is a program that other tests run"]
fn imports() {
    let (driver, bytes, how) = (begin(), exported_bytes(), export_kind());
    let listener = UnixListener::bind(folder().join("socket")).unwrap();
    std::fs::write(folder().join("listens"), "").unwrap();
    let (file, data) = receive(&listener.accept().unwrap().0);
    let [mut source, mut at] = [0_usize; 2];
    let (to, address) = (&raw mut source, &raw mut at);
    if is_ipc() {
        at = open(driver, data);
        // Memory that is open is counted whether its handle has a link or not.
        std::fs::remove_dir_all(folder().join("accounts/exports")).unwrap();
        assert_eq!(at, open(driver, data), "it is opened once, and counted");
        assert_eq!(call!(driver, cuIpcCloseMemHandle(at)), 0);
    } else if how == "pool" {
        assert_eq!(call!(driver, cuMemPoolImportFromShareableHandle(to, file, 1, 0)), 0);
        assert_eq!(call!(driver, cuMemPoolImportPointer(address, source, data.as_ptr())), 0);
    } else {
        assert_eq!(call!(driver, cuMemImportFromShareableHandle(to, file, 1)), 0);
        assert_eq!(call!(driver, cuMemMap(AT, bytes, 0, source, 0)), 0);
        assert_eq!(call!(driver, cuMemRelease(source)), 0);
    }
    // SAFETY: a file of a moment ago, which nothing else has.
    assert_eq!(unsafe { libc::close(file) }, 0);
    std::fs::write(folder().join(format!("begun-{}", std::process::id())), "").unwrap();
    let (mut test, _) = listener.accept().unwrap();
    let code = match how.as_str() {
        "ipc" | "small" | "many" => call!(driver, cuIpcCloseMemHandle(at)),
        "pool" => call!(driver, cuMemFree_v2(at)),
        _ => call!(driver, cuMemUnmap(AT, bytes)),
    };
    test.write_all(&[code as u8]).unwrap();
    assert_eq!(test.read(&mut [0]).unwrap(), 0);
}

/// Gets handles of more memory than has links.
#[test]
#[ignore = "is a program that other tests run"]
fn gets_handles() {
    get_many(begin());
    let links = std::fs::read_dir(folder().join("accounts/exports")).unwrap();
    assert_eq!(links.count(), LINKS);
}

fn start(job: &Job, program: &str, how: &str) -> Child {
    let mut command = job.command(&format!("loader::limits::imports::{program}"));
    piped(command.env(BEGUN, &job.folder).env(HOW, how))
}

/// Waits for a condition.
fn soon(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
}

fn importer_is_charged_after_its_exporter(how: &str, charged: u64) {
    importer_is_charged(how, charged, charged);
}

/// An exporter has `before`, and after its end the importer has `charged`.
fn importer_is_charged(how: &str, before: u64, charged: u64) {
    let job = Job::new(&format!("imports-{how}"));
    let importer = start(&job, "imports", how);
    soon("the importer listens", || job.folder.join("listens").exists());
    let mut exporter = start(&job, "exports", how);
    begun(&job, &importer);
    assert_eq!(job.used(), before, "{how}: its exporter alone is charged");
    exporter.kill().unwrap();
    exporter.wait().unwrap();
    soon("the importer is charged", || job.used() == charged);
    if charged == LIMIT {
        let mut others = job.command("loader::limits::program::takes_all");
        ended(piped(others.env(WANTS, "nothing")), how);
    }
    let (mut socket, mut code) = (UnixStream::connect(job.folder.join("socket")).unwrap(), [1]);
    socket.read_exact(&mut code).unwrap();
    assert_eq!((code, job.used()), ([0], 0), "{how}: the import has ended");
    drop(socket);
    ended(importer, how);
    assert!(job.peak() <= LIMIT, "{how}: {} of {LIMIT}", job.peak());
}

#[test]
fn imported_memory_is_charged_after_its_exporter_has_ended() {
    importer_is_charged_after_its_exporter("handle", LIMIT);
}

#[test]
fn opened_memory_is_charged_after_its_exporter_has_ended() {
    importer_is_charged_after_its_exporter("ipc", LIMIT);
}

/// The driver keeps all of the block that it shared.
#[test]
fn opened_small_memory_is_charged_with_its_block() {
    importer_is_charged_after_its_exporter("small", BLOCK);
}

#[test]
fn large_memory_keeps_its_link_among_many_small_ones() {
    importer_is_charged("many", LIMIT - BLOCK, LIMIT - 2 * BLOCK);
}

#[test]
fn imported_pointer_is_charged_after_its_exporter_has_ended() {
    importer_is_charged_after_its_exporter("pool", LIMIT);
}

#[test]
fn links_of_a_process_with_many_handles_are_bounded() {
    let job = Job::new("links");
    ended(start(&job, "gets_handles", "ipc"), "handles");
}
