//! Gate at which calls of a swappable program wait until its memory is back
//! ([`pause`](super::pause)).
//!
//! | thread | step |
//! |---|---|
//! | the one that pauses | 1. sets `PAUSED` · 2. empties the slots · 3. waits until `TOUCHING` is zero |
//! | a call that touches memory | 1. increments `TOUCHING` · 2. reads `PAUSED`: if it is set, decrements and waits |
//! | any other call | finds its slot empty, and waits in `bind` |
//!
//! All of these are sequentially consistent, so either the pause sees the call that touches memory,
//! or that call sees the pause. Threads of this library don't wait.

use super::state::Inside;
use crate::settings::settings;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard};

pub(super) static PAUSED: AtomicBool = AtomicBool::new(false);
/// Calls under way that touch memory.
pub(super) static TOUCHING: AtomicUsize = AtomicUsize::new(0);
/// Locked where `PAUSED` changes, and by those that wait for it.
static LOCK: Mutex<()> = Mutex::new(());
pub(super) static RESUMED: Condvar = Condvar::new();

thread_local! {
    /// Depth of this thread's calls that touch memory. Has no destructor.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

pub(super) fn lock() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns whether calls wait.
pub(super) fn is_paused() -> bool {
    PAUSED.load(SeqCst)
}

/// Ends a pause in a child process, in which no thread would: a call gets the driver's answer.
pub(crate) unsafe extern "C" fn in_child() {
    PAUSED.store(false, SeqCst);
}

/// Waits until the pause is over. A call within a call, and a thread of this library, don't.
pub(super) fn wait() {
    if is_paused() && DEPTH.get() == 0 && !Inside::is_here() {
        wait_for_end();
    }
}

#[cold]
fn wait_for_end() {
    let guard = lock();
    drop(RESUMED.wait_while(guard, |()| is_paused()));
}

/// Guard of a call that touches memory.
#[derive(Debug)]
pub(crate) struct Touch(());

impl Drop for Touch {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            TOUCHING.fetch_sub(1, SeqCst);
        }
    }
}

/// Enters a call that touches memory, which may have left the device: waits until it is back.
/// `None`: this program isn't swappable.
#[inline]
pub(crate) fn touch() -> Option<Touch> {
    settings().is_swappable.then(touch_swappable)
}

fn touch_swappable() -> Touch {
    if DEPTH.get() == 0 {
        loop {
            TOUCHING.fetch_add(1, SeqCst);
            if !is_paused() || Inside::is_here() {
                break;
            }
            TOUCHING.fetch_sub(1, SeqCst);
            wait_for_end();
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    Touch(())
}

/// Runs a wait inside a call that touches memory. Until it is over, the memory may leave the
/// device.
pub(crate) fn untouched(wait: impl FnOnce()) {
    if DEPTH.get() == 0 {
        return wait();
    }
    TOUCHING.fetch_sub(1, SeqCst);
    wait();
    loop {
        TOUCHING.fetch_add(1, SeqCst);
        if !is_paused() {
            break;
        }
        TOUCHING.fetch_sub(1, SeqCst);
        wait_for_end();
    }
}

/// Makes a call that touches memory.
pub(crate) fn touching(real: impl FnOnce() -> u32) -> u32 {
    let _touch = touch();
    real()
}
