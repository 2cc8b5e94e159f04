//! Exports functions under the runtime's names.

/// Functions without a per-thread variant: `name(arguments) = body;`.
macro_rules! plain {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?) = $body:ident;)+) => {
        $(
            #[allow(non_snake_case, clippy::too_many_arguments)] // the runtime's
            #[unsafe(export_name = concat!("reef_", stringify!($name)))]
            unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
                // SAFETY: the arguments are those of the program, passed on unread. The runtime
                // demands that addresses among them are null or valid, and so does the body.
                #[allow(unused_unsafe)]
                $crate::thread::end(unsafe { self::$body($($arg),*) })
            }
        )+
    };
}

/// Functions with a variant for per-thread default streams: the body gets the stream
/// that is meant.
macro_rules! ptsz {
    ($($name:ident / $ptsz:ident($($arg:ident: $type:ty),* $(,)?) = $body:ident;)+) => {
        $(
            $crate::calls::export::plain! { $name($($arg: $type),*) = $body; }

            #[allow(non_snake_case, clippy::too_many_arguments)] // the runtime's
            #[unsafe(export_name = concat!("reef_", stringify!($ptsz)))]
            unsafe extern "C" fn $ptsz($($arg: $type),*) -> u32 {
                use $crate::types::Argument;
                // SAFETY: the arguments are those of the program, with another stream. The runtime
                // demands that addresses among them are null or valid, and so does the body.
                #[allow(unused_unsafe)]
                $crate::thread::end(unsafe { self::$body($($arg.of_ptsz()),*) })
            }
        )+
    };
}

/// Functions that use the default stream: the body gets it first.
macro_rules! by_default {
    ($($name:ident / $ptsz:ident($($arg:ident: $type:ty),* $(,)?) = $body:ident;)+) => {
        $(
            #[allow(non_snake_case, clippy::too_many_arguments)] // the runtime's
            #[unsafe(export_name = concat!("reef_", stringify!($name)))]
            unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
                let stream = $crate::types::Stream::DEFAULT;
                // SAFETY: the arguments are those of the program, passed on unread. The runtime
                // demands that addresses among them are null or valid, and so does the body.
                $crate::thread::end(unsafe { self::$body(stream, $($arg),*) })
            }

            #[allow(non_snake_case, clippy::too_many_arguments)] // the runtime's
            #[unsafe(export_name = concat!("reef_", stringify!($ptsz)))]
            unsafe extern "C" fn $ptsz($($arg: $type),*) -> u32 {
                let stream = $crate::types::Stream::PER_THREAD;
                // SAFETY: the arguments are those of the program, passed on unread. The runtime
                // demands that addresses among them are null or valid, and so does the body.
                $crate::thread::end(unsafe { self::$body(stream, $($arg),*) })
            }
        )+
    };
}

/// Functions that are one of the driver's, in the current context.
macro_rules! forward {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?) => $driver:ident($($value:expr),*);)+) => {
        $(
            #[allow(non_snake_case, clippy::too_many_arguments)] // the runtime's
            #[unsafe(export_name = concat!("reef_", stringify!($name)))]
            unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
                let driver = $crate::state::context::enter();
                // SAFETY: the arguments are those of the program, passed on unread. The runtime
                // demands of addresses among them what the driver's function does.
                let result = driver.and_then(|driver| unsafe { driver.$driver($($value),*) });
                $crate::thread::end(result)
            }
        )+
    };
}

/// Functions with a per-thread variant that are one of the driver's.
macro_rules! forward_ptsz {
    ($(
        $name:ident / $ptsz:ident($($arg:ident: $type:ty),* $(,)?) => $driver:ident($($value:expr),*);
    )+) => {
        $(
            $crate::calls::export::forward! { $name($($arg: $type),*) => $driver($($value),*); }

            #[allow(non_snake_case, clippy::too_many_arguments)] // the runtime's
            #[unsafe(export_name = concat!("reef_", stringify!($ptsz)))]
            unsafe extern "C" fn $ptsz($($arg: $type),*) -> u32 {
                use $crate::types::Argument;
                $(let $arg = $arg.of_ptsz();)*
                let driver = $crate::state::context::enter();
                // SAFETY: the arguments are those of the program, with another stream. The runtime
                // demands of addresses among them what the driver's function does.
                let result = driver.and_then(|driver| unsafe { driver.$driver($($value),*) });
                $crate::thread::end(result)
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
        return Err(crate::codes::INVALID_VALUE);
    }
    // SAFETY: not null, so `# Safety` demands that `to` may be written.
    unsafe { to.write(value) };
    Ok(())
}

pub(crate) use {by_default, forward, forward_ptsz, plain, ptsz};
