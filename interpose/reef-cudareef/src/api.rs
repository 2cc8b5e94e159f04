//! Functions that C++ calls. Names and numbers are those of the port's header.

#![allow(non_snake_case, reason = "the port's names")]

use crate::fault::{Fault, Result};
use crate::streams;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::catch_unwind;

/// `RFresult`: 0 for success.
type RFresult = u32;

/// `PreemptHostQueue`
const HOST_QUEUE: u32 = 0;
/// `PreemptDeviceQueue`
const DEVICE_QUEUE: u32 = 1;

/// `RFconfig`. The first three are settings of queues, which this library doesn't have.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RFconfig {
    /// Ignored.
    pub queueSize: usize,
    /// Ignored.
    pub batchSize: usize,
    /// Ignored.
    pub taskTimeout: i32,
    /// 0 or 1, which are the same here.
    pub preemptLevel: u32,
}

thread_local! {
    /// Text of the last call of this thread that failed.
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Nothing unwinds into C++.
fn answer(work: impl FnOnce() -> Result<()> + std::panic::UnwindSafe) -> RFresult {
    let how = catch_unwind(work);
    let fault = match how {
        Ok(Ok(())) => return 0,
        Ok(Err(fault)) => fault,
        Err(_) => Fault::invalid("a fault of the library"),
    };
    let text = CString::new(fault.text).unwrap_or_default();
    let _ = MESSAGE.try_with(|message| message.replace(text)); // the thread may be about to end
    fault.kind as RFresult
}

/// Refuses the default streams, which are others for each thread or hold all others.
fn check(stream: usize) -> Result<()> {
    match stream {
        0 => Err(Fault::invalid("the stream is null")),
        1 | 2 => Err(Fault::invalid("default streams are not preempted")),
        _ => Ok(()),
    }
}

/// Enables preemption of a stream, when all it has has ended.
///
/// A stream is a handle of the program's, as everywhere here; the driver says what becomes of
/// others.
#[unsafe(no_mangle)]
pub extern "C" fn enablePreemption(stream: usize, config: RFconfig) -> RFresult {
    answer(|| {
        check(stream)?;
        match config.preemptLevel {
            HOST_QUEUE | DEVICE_QUEUE => streams::enable(stream),
            level => Err(Fault::invalid(format!(
                "level {level}: PreemptHostQueue 0 and PreemptDeviceQueue 1 are supported"
            ))),
        }
    })
}

/// Disables preemption of a stream, and restores it.
#[unsafe(no_mangle)]
pub extern "C" fn disablePreemption(stream: usize) -> RFresult {
    answer(|| {
        check(stream)?;
        streams::disable(stream)
    })
}

/// Holds what is submitted from now on; `synchronize`, a `bool`: returns when all that was
/// submitted before has ended.
#[unsafe(no_mangle)]
pub extern "C" fn preempt(stream: usize, synchronize: u8) -> RFresult {
    answer(|| {
        check(stream)?;
        streams::preempt(stream, synchronize != 0)
    })
}

/// Lets what was held go on.
#[unsafe(no_mangle)]
pub extern "C" fn restore(stream: usize) -> RFresult {
    answer(|| {
        check(stream)?;
        streams::restore(stream)
    })
}

/// Returns the error of the last call of this thread that failed; "" if none did. Not in the port.
#[unsafe(no_mangle)]
pub extern "C" fn reefPreemptError() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The level that an enabled stream really has: `PreemptHostQueue`, whatever was asked. Not in the
/// port.
///
/// # Safety
///
/// `level` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reefPreemptLevel(stream: usize, level: *mut u32) -> RFresult {
    answer(|| {
        check(stream)?;
        streams::check(stream)?;
        if level.is_null() {
            return Err(Fault::invalid("level is null"));
        }
        // SAFETY: `level` is not null, and this function's `# Safety` demands memory for one `u32`
        // there, of any alignment.
        unsafe { level.write_unaligned(HOST_QUEUE) };
        Ok(())
    })
}
