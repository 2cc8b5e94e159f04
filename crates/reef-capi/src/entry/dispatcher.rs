//! Dispatchers.

use crate::entry::args::{give, place, text};
use crate::entry::record;
use crate::entry::types::{reef_device, reef_dispatcher, reef_stats};
use crate::guard::answer;
use crate::handles;
use crate::status::reef_status;
use reef_any::Device;
use reef_any::Dispatcher;
use std::ffi::c_char;

/// Starts a dispatcher on the device, with one of `reef_schedulers()`: "reef" unless there is a
/// reason.
///
/// REEF_UNSUPPORTED: the scheduler preempts more deeply than the device can. Any thread. One
/// dispatcher for a device is enough; two know nothing of each other.
///
/// # Safety
///
/// `scheduler` is null or a string that ends with a zero byte; `dispatcher` is null or can be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_dispatcher_start(
    device: *const reef_device,
    scheduler: *const c_char,
    dispatcher: *mut *mut reef_dispatcher,
) -> reef_status {
    answer(|| {
        place("dispatcher", dispatcher)?;
        let device = handles::get::<Device>(device.addr())?;
        // SAFETY: `scheduler` is null or a string that ends with a zero byte: reef.h demands it of
        // the program.
        let scheduler = unsafe { text("scheduler", scheduler) }?;
        let started = device.dispatcher(scheduler)?;
        // SAFETY: `dispatcher` is not null, as `place` has checked, and can be written: reef.h
        // demands it of the program.
        unsafe { give(started, dispatcher) }
    })
}

/// Ends the dispatcher, waits for what runs, and frees the handle; NULL does nothing.
///
/// Real-time requests that the device has are finished, all others end as REEF_CANCELLED; its
/// clients stay handles and submit nothing more. Any thread, also while others wait for requests.
#[unsafe(no_mangle)]
pub extern "C" fn reef_dispatcher_free(dispatcher: *mut reef_dispatcher) -> reef_status {
    answer(|| {
        if !dispatcher.is_null() {
            handles::close::<Dispatcher>(dispatcher.addr())?.close();
        }
        Ok(())
    })
}

/// Reads the counters since the start. Any thread.
///
/// # Safety
///
/// `stats` is null or as large as its `struct_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_dispatcher_get_stats(
    dispatcher: *const reef_dispatcher,
    stats: *mut reef_stats,
) -> reef_status {
    answer(|| {
        let now = handles::get::<Dispatcher>(dispatcher.addr())?.stats()?;
        let now = reef_stats {
            struct_size: 0,
            reserved: 0,
            preemptions: now.preemptions,
            rt_finished: now.rt_finished,
            padded_launches: now.padded_launches,
            padded_blocks: now.padded_blocks,
            retries: now.retries,
            abandoned: now.abandoned,
        };
        // SAFETY: `stats` is null or as large as its `struct_size`: reef.h demands it of the
        // program.
        unsafe { record::write(now, stats) }
    })
}
