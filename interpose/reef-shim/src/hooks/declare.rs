//! Macros that export hooks under the driver's names, and arguments that no other thread changes.

/// `name(arguments) |real| sink;`, where `real` makes the real call. `|real(argument, …)|`: with
/// other arguments instead of those of these names. `name / name(…`: all of them have this sink.
macro_rules! hooks {
    ($(
        $($name:ident)/+ ($($arg:ident: $type:ty),* $(,)?) |$real:ident $(($($other:ident),+))?| $sink:expr;
    )+) => {
        $($crate::hooks::declare::each! {
            [$($name)+] ($($arg: $type),*) $real ($($($other),+)?) { $sink }
        })+
    };
}

/// `name / per-thread variant(arguments) |is_ptsz, real| sink;`: the per-thread variant means the
/// thread's own stream by a null handle. Further pairs behind the first have the same sink.
macro_rules! ptsz_variants {
    ($(
        $($name:ident / $ptsz:ident)/+ ($($arg:ident: $type:ty),* $(,)?)
        |$is_ptsz:ident, $real:ident $(($($other:ident),+))?| $sink:expr;
    )+) => {
        $(
            $crate::hooks::declare::each! {
                [$($name)+] ($($arg: $type),*) $real ($($($other),+)?) { let $is_ptsz = false; $sink }
            }
            $crate::hooks::declare::each! {
                [$($ptsz)+] ($($arg: $type),*) $real ($($($other),+)?) { let $is_ptsz = true; $sink }
            }
        )+
    };
}

/// An export of each name.
macro_rules! each {
    ([$($name:ident)+] $args:tt $real:ident $others:tt $sink:tt) => {
        $($crate::hooks::declare::hook! { $name, $args, $real $others, $sink })+
    };
}

/// One export.
macro_rules! hook {
    ($name:ident, ($($arg:ident: $type:ty),*), $real:ident($($other:ident),*), $sink:expr) => {
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
            let at = $crate::driver::slots::address($crate::driver::names::$name);
            // SAFETY: the slot has the real driver's function of this name, or one of ours that
            // looks at no argument; the arguments are those that the program gave us, or a handle
            // of the same kind.
            let $real = |$($other: usize),*| unsafe {
                let real =
                    std::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> u32>(at);
                real($($arg),*)
            };
            $sink
        }
    };
}

pub(super) use {each, hook, hooks, ptsz_variants};

/// Makes a call that writes to a place of ours, and writes that to the program's once it has
/// succeeded. So what is read there is what the driver has written: another thread of the program
/// may write to the program's place at any time.
pub(super) fn write_through<T: Copy + Default>(
    to: *mut T,
    call: impl FnOnce(*mut T) -> u32,
) -> u32 {
    if to.is_null() {
        return call(to);
    }
    let mut own = T::default();
    let code = call(&raw mut own);
    if code == 0 {
        // SAFETY: not null, and the driver demands of the program that it may be written.
        unsafe { to.write_unaligned(own) };
    }
    code
}

/// Makes a call with a copy of what the program has at an address, so that the driver reads what is
/// read here.
pub(super) fn with_copy<T: Copy>(from: *const T, call: impl FnOnce(*const T) -> u32) -> u32 {
    if from.is_null() {
        return call(from);
    }
    // SAFETY: not null, and the driver demands of the program what is read here.
    let own = unsafe { from.read_unaligned() };
    call(&raw const own)
}
