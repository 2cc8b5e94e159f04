//! A thread of the program: its device, its last error, launches that are being written.

use crate::codes::{CUDART_UNLOADING, SUCCESS, is_sticky};
use crate::types::{Dim3, Stream};
use std::cell::{Cell, RefCell};

/// Sizes and stream of a launch `kernel<<<grid, block, shared, stream>>>`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Configuration {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) shared: usize,
    pub(crate) stream: Stream,
}

/// State of a thread.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Device whose primary context it uses if it has no context.
    pub(crate) device: Cell<i32>,
    last: Cell<u32>,
    /// Launches whose arguments are being evaluated, the innermost last.
    pub(crate) configurations: RefCell<Vec<Configuration>>,
}

/// Calls with the calling thread's state.
///
/// # Errors
///
/// `CUDART_UNLOADING` in a thread that has nearly ended.
pub(crate) fn in_thread<T>(call: impl FnOnce(&Thread) -> T) -> Result<T, u32> {
    thread_local! {
        static THREAD: Thread = const {
            Thread {
                device: Cell::new(0),
                last: Cell::new(SUCCESS),
                configurations: RefCell::new(Vec::new()),
            }
        };
    }
    THREAD.try_with(call).map_err(|_| CUDART_UNLOADING)
}

/// Returns the code of a call, and keeps it as the thread's last error if it is one.
pub(crate) fn end(result: Result<(), u32>) -> u32 {
    let Err(code) = result else { return SUCCESS };
    match in_thread(|thread| note(thread, code)) {
        Ok(()) => code,
        Err(unloading) => unloading,
    }
}

/// A sticky error stays.
fn note(thread: &Thread, code: u32) {
    if !is_sticky(thread.last.get()) {
        thread.last.set(code);
    }
}

/// Returns the thread's last error.
pub(crate) fn last_error() -> u32 {
    in_thread(|thread| thread.last.get()).unwrap_or_else(|unloading| unloading)
}

/// Returns the thread's last error, and forgets it unless it is sticky.
pub(crate) fn take_last_error() -> u32 {
    let take = |thread: &Thread| {
        let last = thread.last.get();
        if !is_sticky(last) {
            thread.last.set(SUCCESS);
        }
        last
    };
    in_thread(take).unwrap_or_else(|unloading| unloading)
}

/// Forgets the thread's last error: its device begins again.
pub(crate) fn forget_error() {
    let _ = in_thread(|thread| thread.last.set(SUCCESS));
}
