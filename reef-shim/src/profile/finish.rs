//! How the thread that writes is asked for the end, and by SIGTERM among others.
//!
//! A signal's handler may do next to nothing, so it asks the thread that writes, waits for it, though not for long, and
//! lets the signal do what it does. A program that has a handler of its own for SIGTERM keeps that.

use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::time::Duration;

/// How long a signal waits for the last lines, in milliseconds.
const PATIENCE: u32 = 3_000;

/// Nothing was asked for; the thread is to finish; it has. A child process begins with what its parent had.
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

/// What a handler says when all is written.
static SAID: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static SAID_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Tells a handler that all is written, and what it says.
pub(super) fn done(text: String) {
    let text = text.leak(); // the process ends
    SAID_BYTES.store(text.len(), Relaxed);
    SAID.store(text.as_mut_ptr(), Relaxed);
    STATE.store(DONE, Release);
}

/// Has the thread asked at a SIGTERM of this process, unless the program has a handler.
pub(super) fn handle_signal(process: u32) {
    PROCESS.store(process, Relaxed);
    // SAFETY: a handler of ours that does what handlers may; the structs are what the calls take.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        let is_free = libc::sigaction(libc::SIGTERM, std::ptr::null(), &raw mut old) == 0
            && old.sa_sigaction == libc::SIG_DFL;
        if is_free {
            let mut own: libc::sigaction = std::mem::zeroed();
            own.sa_sigaction = at_signal as *const () as usize;
            own.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(libc::SIGTERM, &raw const own, std::ptr::null_mut());
        }
    }
}

/// Touches atomics and makes system calls, and nothing else; `SA_RESETHAND` has put the signal's own effect back, which
/// comes once this returns.
extern "C" fn at_signal(signal: libc::c_int) {
    // SAFETY: the address of a word of this thread's.
    let code = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *code };
    // SAFETY: asks for a number.
    if unsafe { libc::getpid() }.unsigned_abs() == PROCESS.load(Relaxed) {
        let _ = STATE.compare_exchange(0, ASKED, Release, Relaxed); // it may be over already
        futex(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1, std::ptr::null());
        let nap = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        for _ in 0..PATIENCE {
            if STATE.load(Acquire) == DONE {
                let (text, bytes) = (SAID.load(Relaxed), SAID_BYTES.load(Relaxed));
                // SAFETY: a text that stays for ever.
                unsafe { libc::write(2, text.cast_const().cast(), bytes) };
                break;
            }
            // SAFETY: a time, and no place for what is left of it.
            unsafe { libc::nanosleep(&raw const nap, std::ptr::null_mut()) };
        }
    }
    // SAFETY: this process's own number, and the signal that it was sent.
    unsafe { libc::kill(libc::getpid(), signal) };
    // SAFETY: as above.
    unsafe { *code = before };
}
