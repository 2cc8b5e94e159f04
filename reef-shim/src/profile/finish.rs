//! How the thread that writes is asked for the end, and by SIGTERM among others.
//!
//! A signal's handler may do next to nothing, so it asks the thread that writes, waits for it,
//! though not for long, and lets the signal do what it does: unless the program has put a handler
//! of its own before this one, which decides that then. A program that has a handler of its own for
//! SIGTERM before the profile begins keeps that alone.

use crate::driver::state::end_profile;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};
use std::time::Duration;

/// How long a signal waits for the last lines, in milliseconds.
const SIGNAL_TIMEOUT_MS: u32 = 3_000;

/// Nothing was asked for; the thread is to finish; it has. A child process begins with what its
/// parent had.
static STATE: AtomicU32 = AtomicU32::new(0);
const ASKED: u32 = 1;
const DONE: u32 = 2;
/// Whose handler it is: a child has it too.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn futex(operation: i32, value: u32, time: *const libc::timespec) {
    // SAFETY: a word of ours, which lives for ever; a time, or none.
    unsafe { libc::syscall(libc::SYS_futex, STATE.as_ptr(), operation, value, time) };
}

/// Waits for so long, or until the end is asked for: whether it is.
pub(super) fn wait(time: Duration) -> bool {
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    if STATE.load(Acquire) == 0 {
        futex(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 0, &raw const time);
    }
    STATE.load(Acquire) == ASKED
}

/// True if a thread writes, or is about to begin. Read by those who wait for it to make room.
static HAS_WRITER: AtomicBool = AtomicBool::new(false);

/// Returns whether it is worth while to wait for room.
pub(super) fn has_writer() -> bool {
    HAS_WRITER.load(Relaxed)
}

/// Lives while there is a thread that writes: it goes with that thread, however it ends.
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

/// What a handler says when all is written.
static MESSAGE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static MESSAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Tells a handler that all is written, and what it says.
pub(super) fn done(text: String) {
    let text = text.leak(); // once in a process
    MESSAGE_BYTES.store(text.len(), Relaxed);
    MESSAGE.store(text.as_mut_ptr(), Relaxed);
    STATE.store(DONE, Release);
}

/// What a SIGTERM does now.
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

/// Has the thread, which was started, asked at a SIGTERM of this process, unless the program has a
/// handler.
pub(super) fn handle_signal(process: u32) {
    PROCESS.store(process, Relaxed);
    if action().sa_sigaction == libc::SIG_DFL {
        set_action(own_handler());
    }
}

/// Touches atomics and makes system calls, and nothing else. It stays the handler until all is
/// written, so that one more signal waits as well.
extern "C" fn at_signal(signal: libc::c_int) {
    // SAFETY: the address of a word of this thread's.
    let code = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *code };
    // SAFETY: asks for a number.
    if unsafe { libc::getpid() }.unsigned_abs() == PROCESS.load(Relaxed) {
        let _ = STATE.compare_exchange(0, ASKED, Release, Relaxed); // it may be over already
        futex(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1, std::ptr::null());
        await_last_lines();
    }
    // A handler of the program that calls this one does what it likes afterwards: a signal more
    // would call it again.
    if action().sa_sigaction == own_handler() {
        set_action(libc::SIG_DFL);
        // SAFETY: this process's own number, and the signal that it was sent.
        unsafe { libc::kill(libc::getpid(), signal) };
    }
    end_profile(); // it may live on: the system drops this signal of a container's first process
    // SAFETY: as above.
    unsafe { *code = before };
}

/// Waits until all is written, though not for long, and says what there is to say, once.
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
