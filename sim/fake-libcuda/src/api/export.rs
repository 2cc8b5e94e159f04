//! Exports functions under the driver's names.

/// Functions without a per-thread variant: `name(arguments) = body;`.
macro_rules! plain {
    ($($name:ident($($arg:ident: $type:ty),*) = $body:ident;)+) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
                if $crate::engine::run::is_lost() {
                    return reef_cuda_abi::codes::NOT_INITIALIZED;
                }
                $crate::engine::checkpoint::pass();
                let _lock = $crate::engine::lock::enter();
                // SAFETY: the arguments are those of the program, passed on unread. The driver
                // demands that addresses among them are null or valid, and so does the body.
                unsafe { self::$body($($arg),*) }
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
                if $crate::engine::run::is_lost() {
                    return reef_cuda_abi::codes::NOT_INITIALIZED;
                }
                $crate::engine::checkpoint::pass();
                let _lock = $crate::engine::lock::enter();
                // SAFETY: the arguments are those of the program, passed on unread. The driver
                // demands that addresses among them are null or valid, and so does the body.
                unsafe { self::$body(false, $($arg),*) }
            }

            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $ptsz($($arg: $type),*) -> u32 {
                if $crate::engine::run::is_lost() {
                    return reef_cuda_abi::codes::NOT_INITIALIZED;
                }
                $crate::engine::checkpoint::pass();
                let _lock = $crate::engine::lock::enter();
                // SAFETY: the arguments are those of the program, passed on unread. The driver
                // demands that addresses among them are null or valid, and so does the body.
                unsafe { self::$body(true, $($arg),*) }
            }
        )+
    };
}

/// Writes a result.
///
/// # Safety
///
/// `to` is null or may be written.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null, so `# Safety` demands that `to` may be written.
        unsafe { to.write(value) };
    }
}

pub(crate) use {plain, ptsz};
