//! Exports functions under the driver's names.

/// Functions without a per-thread variant: `name(arguments) = body;`.
macro_rules! plain {
    ($($name:ident($($arg:ident: $type:ty),*) = $body:ident;)+) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
                // SAFETY: the arguments are those of the program, passed on unread. The driver
                // demands that addresses among them are null or valid, and so does the body.
                #[allow(unused_unsafe)]
                let result: Result<(), u32> = unsafe { self::$body($($arg),*) };
                result.err().unwrap_or(reef_cuda_abi::codes::SUCCESS)
            }
        )+
    };
}

/// Functions with a variant for per-thread default streams: the body is told which one
/// was called.
macro_rules! ptsz {
    ($($name:ident / $ptsz:ident($($arg:ident: $type:ty),*) = $body:ident;)+) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
                // SAFETY: the arguments are those of the program, passed on unread. The driver
                // demands that addresses among them are null or valid, and so does the body.
                #[allow(unused_unsafe)]
                let result: Result<(), u32> = unsafe { self::$body(false, $($arg),*) };
                result.err().unwrap_or(reef_cuda_abi::codes::SUCCESS)
            }

            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $ptsz($($arg: $type),*) -> u32 {
                // SAFETY: the arguments are those of the program, passed on unread. The driver
                // demands that addresses among them are null or valid, and so does the body.
                #[allow(unused_unsafe)]
                let result: Result<(), u32> = unsafe { self::$body(true, $($arg),*) };
                result.err().unwrap_or(reef_cuda_abi::codes::SUCCESS)
            }
        )+
    };
}

/// Writes a result.
///
/// # Errors
///
/// `INVALID_VALUE` if there is no place.
///
/// # Safety
///
/// `to` is null or may be written.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) -> Result<(), u32> {
    if to.is_null() {
        return Err(reef_cuda_abi::codes::INVALID_VALUE);
    }
    // SAFETY: not null, so `# Safety` demands that `to` may be written. Its alignment does not
    // matter.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Makes an error of any code but success.
pub(crate) fn check(code: u32) -> Result<(), u32> {
    if code == reef_cuda_abi::codes::SUCCESS { Ok(()) } else { Err(code) }
}

/// Returns the number of a stream, as passed to a function or to its per-thread variant.
pub(crate) fn stream(handle: usize, is_ptsz: bool) -> u64 {
    use reef_remote_calls::{LEGACY_STREAM, OWN_STREAM};
    match (handle, is_ptsz) {
        (0, false) => LEGACY_STREAM,
        (0, true) => OWN_STREAM,
        (handle, _) => handle as u64,
    }
}

pub(crate) use {plain, ptsz};
