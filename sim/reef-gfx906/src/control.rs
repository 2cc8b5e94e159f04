//! Functions that tests call: the C functions `reef_gfx906_*`.

use crate::device::machine::{configure, device};
use crate::settings::{Counters, Record, Settings};

/// Sets how the device is built. False if a value is out of range, or the device is in use already
/// and more than the step budget and the seed would change.
///
/// # Safety
///
/// `settings` points to a [`Settings`].
#[unsafe(no_mangle)]
unsafe extern "C" fn reef_gfx906_configure(settings: *const Settings) -> bool {
    // SAFETY: `# Safety` demands a `Settings` at the address, which is copied.
    configure(unsafe { *settings })
}

/// Holds or releases the device: while it is held, it takes up no packet, so that a test can launch
/// several things at once.
#[unsafe(no_mangle)]
extern "C" fn reef_gfx906_hold(held: bool) {
    device().hold(held);
}

/// Reads the counters.
///
/// # Safety
///
/// `counters` points to room for a [`Counters`].
#[unsafe(no_mangle)]
unsafe extern "C" fn reef_gfx906_counters(counters: *mut Counters) {
    // SAFETY: `# Safety` demands room for a `Counters` at the address.
    unsafe { counters.write(device().counters()) };
}

/// Copies at most `room` records, oldest first, and says how many there are.
///
/// # Safety
///
/// `records` points to room for `room` records.
#[unsafe(no_mangle)]
unsafe extern "C" fn reef_gfx906_trace(records: *mut Record, room: usize) -> usize {
    let trace = device().trace();
    // SAFETY: `# Safety` demands room for `room` records, and no more are copied. The trace is a
    // copy of this function's own.
    unsafe { records.copy_from_nonoverlapping(trace.as_ptr(), room.min(trace.len())) };
    trace.len()
}

/// Empties the trace.
#[unsafe(no_mangle)]
extern "C" fn reef_gfx906_forget_trace() {
    device().forget_trace();
}

/// Copies at most `room` bytes of what is known of the last fault, in UTF-8 and without a final 0,
/// and says how many there are; 0 if there was none.
///
/// # Safety
///
/// `text` points to `room` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn reef_gfx906_last_fault(text: *mut u8, room: usize) -> usize {
    let fault = device().last_fault();
    // SAFETY: `# Safety` demands `room` bytes, and no more are copied. The text is a copy of this
    // function's own.
    unsafe { text.copy_from_nonoverlapping(fault.as_ptr(), room.min(fault.len())) };
    fault.len()
}
