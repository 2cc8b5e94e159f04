//! The boundary: nothing unwinds into C, and what went wrong is kept for the thread that asked.

use crate::fault::{Fault, Result};
use crate::status::{REEF_INTERNAL, REEF_OK, reef_status};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Text of the last call of this thread that failed.
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs `work`, and answers with its status.
///
/// State that a panic leaves behind is behind locks and handles, which later calls find as it is.
pub(crate) fn answer(work: impl FnOnce() -> Result<()>) -> reef_status {
    let how = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(test)]
        injected::panic_if_asked();
        work()
    }));
    match how {
        Ok(Ok(())) => REEF_OK,
        Ok(Err(fault)) => note(&fault),
        Err(payload) => note(&Fault::new(REEF_INTERNAL, panicked(&*payload))),
    }
}

fn panicked(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("a fault of the library: {}", text.unwrap_or("a panic without words"))
}

/// Keeps the text for this thread, which may be about to end and then has no place for it.
fn note(fault: &Fault) -> reef_status {
    let text = CString::new(fault.text.replace('\0', "\u{fffd}")).unwrap_or_default();
    let _ = MESSAGE.try_with(|message| message.replace(text));
    fault.status
}

/// The text of this thread's last failure; empty if there was none.
pub(crate) fn message() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Panics where a test asks for them.
#[cfg(test)]
pub(crate) mod injected {
    use std::cell::Cell;

    thread_local! {
        static ASKED: Cell<bool> = const { Cell::new(false) };
    }

    /// The next call of this thread panics.
    pub(crate) fn panic_next() {
        ASKED.set(true);
    }

    pub(crate) fn panic_if_asked() {
        assert!(!ASKED.replace(false), "injected");
    }
}
