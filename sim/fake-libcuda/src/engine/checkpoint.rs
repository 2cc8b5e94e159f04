//! Suspension of this process by another one, with `REEF_FAKE_PROCESSES`, a folder.
//!
//! Each process that has initialised the driver has a file of four words there, named by its
//! number: state, request, argument, reply. A caller writes a request and waits for the reply; a
//! thread of the process serves it, as the real driver's does. While the process is not running
//! its calls wait at [`pass`]. The state is the process's own: one that is started again from a
//! folder, after its file has changed, writes it anew. While the folder has a file `hold` no
//! checkpoint ends, and one that finds a file `refuse` is refused.

use super::device_memory::{give_back, own, take};
use super::world::world;
use reef_cuda_abi::codes::*;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Time between two polls of a request, a reply or the device.
const POLL_INTERVAL: Duration = Duration::from_micros(200);
/// Longest wait for the reply of a process: it may have ended, or a checkpoint is held.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);

/// States, as `CUprocessState` numbers them.
const RUNNING: u32 = 0;
const LOCKED: u32 = 1;
const SUSPENDED: u32 = 2;
const FAILED: u32 = 3;

/// Places of the words.
const STATE: u64 = 0;
const REQUEST: u64 = 1;
const ARGUMENT: u64 = 2;
const REPLY: u64 = 3;

/// A request of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Request {
    Lock = 1,
    Checkpoint,
    Restore,
    Unlock,
}

/// State of this process, which its file shows.
static OWN: AtomicU32 = AtomicU32::new(RUNNING);
/// True while calls of the driver wait, and the condition of its end.
static CLOSED: Mutex<bool> = Mutex::new(false);
static OPENED: Condvar = Condvar::new();
/// Addresses of managed memory, which can't be saved.
static MANAGED: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);
/// Bytes of this process that are in the host's memory.
static SAVED: AtomicU64 = AtomicU64::new(0);

fn folder() -> Option<PathBuf> {
    static FOLDER: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os("REEF_FAKE_PROCESSES").map(PathBuf::from));
    FOLDER.clone()
}

fn read(file: &File, word: u64) -> u32 {
    let mut bytes = [0; 4];
    match file.read_exact_at(&mut bytes, 4 * word) {
        Ok(()) => u32::from_le_bytes(bytes),
        Err(_) => FAILED,
    }
}

fn write(file: &File, word: u64, value: u32) {
    file.write_all_at(&value.to_le_bytes(), 4 * word).expect("a file of this process's folder");
}

/// Waits while this process is locked or suspended.
pub(crate) fn pass() {
    if folder().is_none() {
        return;
    }
    let closed = CLOSED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    drop(OPENED.wait_while(closed, |closed| *closed));
}

fn set_closed(is_closed: bool) {
    *CLOSED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = is_closed;
    OPENED.notify_all();
}

/// Notes managed memory.
pub(crate) fn note_managed(at: usize) {
    MANAGED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(at);
}

/// Forgets managed memory, whose address another allocation has got.
pub(crate) fn forget_managed(at: usize) {
    MANAGED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&at);
}

/// Returns whether managed memory begins at an address.
pub(crate) fn is_managed(at: usize) -> bool {
    MANAGED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).contains(&at)
}

fn has_managed() -> bool {
    let managed = MANAGED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let world = world();
    managed.iter().any(|at| world.memory.contains_key(at))
}

/// Serves requests of other processes from now on.
pub(crate) fn start() {
    let Some(folder) = folder() else { return };
    std::fs::create_dir_all(&folder).expect("REEF_FAKE_PROCESSES");
    let path = folder.join(std::process::id().to_string());
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(path);
    let file = file.expect("REEF_FAKE_PROCESSES");
    (0..4).for_each(|word| write(&file, word, 0));
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(POLL_INTERVAL);
            if read(&file, STATE) != OWN.load(Ordering::SeqCst) {
                become_state(&file, OWN.load(Ordering::SeqCst));
            }
            let reply = match read(&file, REQUEST) {
                1 => lock(&file),
                2 => checkpoint(&file),
                3 => restore(&file),
                4 => unlock(&file),
                _ => continue,
            };
            write(&file, REQUEST, 0);
            write(&file, REPLY, reply + 1);
        }
    });
}

fn become_state(file: &File, state: u32) {
    OWN.store(state, Ordering::SeqCst);
    write(file, STATE, state);
}

fn is(state: u32) -> bool {
    OWN.load(Ordering::SeqCst) == state
}

fn step(file: &File, from: u32, to: u32) -> u32 {
    if !is(from) {
        return ILLEGAL_STATE;
    }
    become_state(file, to);
    SUCCESS
}

/// Closes the process's calls and waits until its streams are empty.
fn lock(file: &File) -> u32 {
    if !is(RUNNING) {
        return ILLEGAL_STATE;
    }
    let timeout = Duration::from_millis(read(file, ARGUMENT).into());
    set_closed(true);
    let begin = Instant::now();
    while !world().is_all_idle(None) {
        if begin.elapsed() >= timeout {
            set_closed(false);
            return NOT_READY;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    step(file, RUNNING, LOCKED)
}

/// Returns whether the folder has a file of this name.
fn has(name: &str) -> bool {
    folder().is_some_and(|folder| folder.join(name).exists())
}

fn checkpoint(file: &File) -> u32 {
    while has("hold") {
        std::thread::sleep(POLL_INTERVAL);
    }
    if is(LOCKED) && (has("refuse") || has_managed()) {
        return NOT_SUPPORTED; // and stays locked
    }
    let code = step(file, LOCKED, SUSPENDED);
    if code == SUCCESS {
        let bytes = own();
        SAVED.store(bytes, Ordering::SeqCst);
        give_back(bytes);
    }
    code
}

fn restore(file: &File) -> u32 {
    if !is(SUSPENDED) {
        return ILLEGAL_STATE;
    }
    if !take(SAVED.load(Ordering::SeqCst)) {
        become_state(file, FAILED); // for good, as with the driver
        return OUT_OF_MEMORY;
    }
    step(file, SUSPENDED, LOCKED)
}

fn unlock(file: &File) -> u32 {
    let code = step(file, LOCKED, RUNNING);
    if code == SUCCESS {
        set_closed(false);
    }
    code
}

/// The file of another process, if that lives and has initialised the driver.
fn of(pid: i32) -> Option<File> {
    let path = folder()?.join(pid.to_string());
    let is_alive = std::path::Path::new(&format!("/proc/{pid}")).exists();
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).ok().filter(|_| is_alive)
}

/// Asks another process.
pub(crate) fn ask(pid: i32, request: Request, argument: u32) -> u32 {
    let Some(file) = of(pid) else { return INVALID_VALUE };
    write(&file, ARGUMENT, argument);
    write(&file, REPLY, 0);
    write(&file, REQUEST, request as u32);
    let begin = Instant::now();
    loop {
        match read(&file, REPLY) {
            0 if begin.elapsed() >= REPLY_TIMEOUT || of(pid).is_none() => return INVALID_VALUE,
            0 => std::thread::sleep(POLL_INTERVAL),
            reply => return reply - 1,
        }
    }
}

/// State of another process.
pub(crate) fn state(pid: i32) -> Result<u32, u32> {
    of(pid).map(|file| read(&file, STATE)).ok_or(INVALID_VALUE)
}
