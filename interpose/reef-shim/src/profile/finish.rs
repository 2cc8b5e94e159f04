//! End of the writer thread, on request or at a SIGTERM.
//!
//! A signal handler may do very little. So it asks the writer thread, waits for it for a bounded
//! time, and then lets the signal take its default effect. If the program has installed a handler
//! that calls this one, that handler decides. A program with its own handler for SIGTERM before the
//! profile begins keeps only that one.

use crate::driver::state::end_profile;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};
use std::time::Duration;

/// Maximum time that a signal waits for the last lines, in milliseconds.
const SIGNAL_TIMEOUT_MS: u32 = 3_000;

/// State of the request: zero for none, [`ASKED`], or [`DONE`]. A child process begins with its
/// parent's state.
static STATE: AtomicU32 = AtomicU32::new(0);
const ASKED: u32 = 1;
const DONE: u32 = 2;
/// Process of the handler, which a child process has too.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn futex(operation: i32, value: u32, time: *const libc::timespec) {
    // SAFETY: a word of ours, which lives for ever; a time, or none.
    unsafe { libc::syscall(libc::SYS_futex, STATE.as_ptr(), operation, value, time) };
}

/// Waits for `time`, or until the end is requested. Returns whether it is requested.
pub(super) fn wait(time: Duration) -> bool {
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    if STATE.load(Acquire) == 0 {
        futex(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 0, &raw const time);
    }
    STATE.load(Acquire) == ASKED
}

/// True if the writer thread runs, or is about to start. Read by threads that wait for room.
static HAS_WRITER: AtomicBool = AtomicBool::new(false);

/// Returns whether a thread may wait for room.
pub(super) fn has_writer() -> bool {
    HAS_WRITER.load(Relaxed)
}

/// Guard of the writer thread. It is dropped with that thread, however it ends.
#[derive(Debug)]
pub(super) struct WriterGuard(());

impl WriterGuard {
    pub(super) fn begin() -> Self {
        HAS_WRITER.store(true, Relaxed);
        Self(())
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        HAS_WRITER.store(false, Relaxed);
    }
}

/// Text that the handler prints when all is written.
static MESSAGE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static MESSAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Tells the handler that all is written, and the text to print.
pub(super) fn done(text: String) {
    let text = text.leak(); // once in a process
    MESSAGE_BYTES.store(text.len(), Relaxed);
    MESSAGE.store(text.as_mut_ptr(), Relaxed);
    STATE.store(DONE, Release);
}

/// Returns the current action of SIGTERM.
fn action() -> libc::sigaction {
    // SAFETY: zeroes are a value of this struct, which the call fills in.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGTERM, std::ptr::null(), &raw mut now);
        now
    }
}

fn set_action(handler: usize) {
    // SAFETY: zeroes are a value of this struct: no flags, no signals held back; a handler of ours,
    // or none.
    unsafe {
        let mut own: libc::sigaction = std::mem::zeroed();
        own.sa_sigaction = handler;
        libc::sigaction(libc::SIGTERM, &raw const own, std::ptr::null_mut());
    }
}

fn own_handler() -> usize {
    at_signal as *const () as usize
}

/// Installs the handler for SIGTERM of this process, unless the program has one. The writer thread
/// must have started.
pub(super) fn handle_signal(process: u32) {
    PROCESS.store(process, Relaxed);
    if action().sa_sigaction == libc::SIG_DFL {
        set_action(own_handler());
    }
}

/// Handles the signal: uses only atomics and system calls. It stays the handler until all is
/// written, so that another signal waits as well.
extern "C" fn at_signal(signal: libc::c_int) {
    // SAFETY: the address of a word of this thread's.
    let code = unsafe { libc::__errno_location() };
    // SAFETY: the C library returns the address of this thread's `errno`, which lives as long as
    // the thread.
    let before = unsafe { *code };
    // SAFETY: asks for a number.
    if unsafe { libc::getpid() }.unsigned_abs() == PROCESS.load(Relaxed) {
        let _ = STATE.compare_exchange(0, ASKED, Release, Relaxed); // it may be over already
        futex(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1, std::ptr::null());
        await_last_lines();
    }
    // A handler of the program that calls this one decides what follows: another signal would call
    // it again.
    if action().sa_sigaction == own_handler() {
        set_action(libc::SIG_DFL);
        // SAFETY: this process's own number, and the signal that it was sent.
        unsafe { libc::kill(libc::getpid(), signal) };
    }
    end_profile(); // it may live on: the system drops this signal of a container's first process
    // SAFETY: `code` is the address of this thread's `errno`, and the handler runs on the same
    // thread throughout.
    unsafe { *code = before };
}

/// Waits until all is written, for a bounded time, and prints the text, once.
fn await_last_lines() {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    for _ in 0..SIGNAL_TIMEOUT_MS {
        if STATE.load(Acquire) == DONE {
            let text = MESSAGE.swap(std::ptr::null_mut(), Relaxed);
            if !text.is_null() {
                // SAFETY: a text of this length that stays for ever.
                unsafe { libc::write(2, text.cast_const().cast(), MESSAGE_BYTES.load(Relaxed)) };
            }
            return;
        }
        // SAFETY: a time, and no place for what is left of it.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}
