//! References to devices' primary contexts.

use super::memory;
use super::memory_request::context_or_ask;
use super::sync;
use crate::driver::primary::{add_reference, remove_reference, remove_references};

/// Retains a device's primary context.
pub(crate) fn retain(context: *mut usize, ordinal: i32, real: impl Fn() -> u32) -> u32 {
    let code = context_or_ask(ordinal, real);
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(context)) = (code, unsafe { context.as_ref() }) {
        add_reference(ordinal, *context);
    }
    code
}

/// Releases a reference. The device's gate opens for the last one alone, because that one waits
/// for the context's work.
pub(crate) fn release(ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    if remove_reference(ordinal) { real() } else { end(ordinal, real) }
}

/// Ends a device's primary context, however many references there are.
pub(crate) fn reset(ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    remove_references(ordinal);
    end(ordinal, real)
}

fn end(ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    memory::end_primary(ordinal, || sync::end_primary(ordinal, real))
}
