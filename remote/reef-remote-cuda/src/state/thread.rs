//! A thread of the program: its number, and its stack of contexts.

use super::lock::lock;
use reef_cuda_abi::codes::DEINITIALIZED;
use reef_replay::Player;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// State of a thread.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Its number in messages; never zero.
    pub(crate) lane: u32,
    /// Contexts, the current one last.
    pub(crate) stack: RefCell<Vec<u64>>,
    /// Context that the worker has been told.
    pub(crate) told: Cell<u64>,
    /// Mode of captures: `CUstreamCaptureMode`.
    pub(crate) capture_mode: Cell<u32>,
    /// It runs a function for the device.
    pub(crate) is_callback: Cell<bool>,
    /// Stream that has no work left, and how many calls the process had sent then.
    pub(crate) done: Cell<(u64, u64)>,
    /// Record and replay of its calls; made at the first one.
    pub(crate) player: RefCell<Option<Player>>,
}

impl Thread {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self {
            lane: NEXT.fetch_add(1, Ordering::Relaxed),
            stack: RefCell::new(Vec::new()),
            told: Cell::new(0),
            capture_mode: Cell::new(0),
            is_callback: Cell::new(false),
            done: Cell::new((0, 0)),
            player: RefCell::new(None),
        }
    }

    /// Returns the current context; zero: none.
    pub(crate) fn context(&self) -> u64 {
        self.stack.borrow().last().copied().unwrap_or(0)
    }

    /// Makes another context current, in place of the current one.
    pub(crate) fn set_context(&self, context: u64) {
        let mut stack = self.stack.borrow_mut();
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    }
}

/// Calls with the calling thread's state.
///
/// # Errors
///
/// `DEINITIALIZED` in a thread that has nearly ended.
pub(crate) fn in_thread<T>(call: impl FnOnce(&Thread) -> T) -> Result<T, u32> {
    thread_local! {
        static THREAD: Thread = Thread::new();
    }
    THREAD.try_with(call).map_err(|_| DEINITIALIZED)
}

/// Returns contexts that are there, with their devices.
pub(crate) fn contexts() -> MutexGuard<'static, HashMap<u64, i32>> {
    lock(all())
}

fn all() -> &'static Mutex<HashMap<u64, i32>> {
    static ALL: OnceLock<Mutex<HashMap<u64, i32>>> = OnceLock::new();
    ALL.get_or_init(Mutex::default)
}
