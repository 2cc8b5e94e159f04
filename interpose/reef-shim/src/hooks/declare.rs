//! Macros that export hooks under the driver's names.

/// `name(arguments) |real| sink;`, where `real` makes the real call. `|real(argument, …)|`: with
/// other arguments instead of those of these names.
macro_rules! hooks {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?) |$real:ident $(($($other:ident),+))?| $sink:expr;)+) => {
        $($crate::hooks::declare::hook! { $name, ($($arg: $type),*), $real($($($other),+)?), $sink })+
    };
}

/// `name / per-thread variant(arguments) |is_ptsz, real| sink;`: the per-thread variant means the
/// thread's own stream by a null handle.
macro_rules! ptsz_variants {
    ($(
        $name:ident / $ptsz:ident($($arg:ident: $type:ty),* $(,)?)
        |$is_ptsz:ident, $real:ident $(($($other:ident),+))?| $sink:expr;
    )+) => {
        $(
            $crate::hooks::declare::hook! {
                $name, ($($arg: $type),*), $real($($($other),+)?), { let $is_ptsz = false; $sink }
            }
            $crate::hooks::declare::hook! {
                $ptsz, ($($arg: $type),*), $real($($($other),+)?), { let $is_ptsz = true; $sink }
            }
        )+
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

pub(super) use {hook, hooks, ptsz_variants};
