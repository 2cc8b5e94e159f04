//! Errors of vendors' drivers.

use reef_core::Error;

/// Code of both vendors for memory that isn't there.
const OUT_OF_MEMORY: u32 = 2;

/// Error of a driver's call that returned `code`, whose name is `name`. After a code in `lost`
/// nothing works on the device.
#[cold]
pub fn driver_error(
    backend: &'static str,
    lost: &[u32],
    call: &'static str,
    code: u32,
    name: String,
) -> Error {
    match code {
        OUT_OF_MEMORY => Error::OutOfMemory { backend, asked: 0 },
        _ if lost.contains(&code) => {
            Error::DeviceLost { backend, why: format!("{call}: {name} (code {code})") }
        }
        _ => Error::Driver { backend, call, name, code },
    }
}

/// Adds the number of bytes asked for to an `OutOfMemory`: drivers don't tell it.
pub fn with_asked(error: Error, bytes: usize) -> Error {
    match error {
        Error::OutOfMemory { backend, .. } => Error::OutOfMemory { backend, asked: bytes },
        other => other,
    }
}
