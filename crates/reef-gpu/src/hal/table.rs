//! Tables of the functions of a vendor's library, found at run time.
//!
//! In: the library, and names and types from the vendor's header. Out: a struct with a field and a
//! method for each function. Invariant: a function that is missing is an error or a `None`, never a
//! call through a null pointer.

use libloading::Library;
use std::ffi::c_void;

/// Keeps a library mapped for the program's life and returns a lookup of its symbols, which gives
/// null for a name that the library doesn't have.
pub fn symbols(library: Library) -> impl Fn(&str) -> *mut c_void {
    let library: &'static Library = Box::leak(Box::new(library));
    move |name| {
        // SAFETY: only the address is taken.
        let symbol = unsafe { library.get::<*mut c_void>(name) };
        symbol.map_or(std::ptr::null_mut(), |symbol| *symbol)
    }
}

/// Declares the struct `Driver`: a vendor's functions that return a code, where 0 is success.
///
/// Each function becomes a field, which returns the raw code, and a method of the same name, which
/// checks it. `Driver` needs a method `check(&self, call: &'static str, code: u32) -> Result<()>`,
/// and its module a constant `BACKEND` and the name `Error`.
///
/// * `needed` functions are in every version of the library that is supported.
/// * `optional` ones may be missing: their fields are `Option`s, and their methods return
///   `Unsupported`.
/// * `other` ones are needed and return something else than a code: they become fields only.
#[macro_export]
macro_rules! driver_table {
    (
        $(#[$doc:meta])*
        library: $library:literal, a $kind:literal from $oldest:literal on;
        needed { $($name:ident($($arg:ident: $type:ty),*);)+ }
        optional { $($maybe:ident($($marg:ident: $mtype:ty),*);)+ }
        other { $($other:ident($($otype:ty),*) -> $output:ty;)* }
    ) => {
        $(#[$doc])*
        pub(crate) struct Driver {
            $(pub(crate) $name: unsafe extern "C" fn($($type),*) -> u32,)+
            $(pub(crate) $maybe: Option<unsafe extern "C" fn($($mtype),*) -> u32>,)+
            $(pub(crate) $other: unsafe extern "C" fn($($otype),*) -> $output,)*
        }

        /// All names in the table, and whether the function is needed.
        #[cfg(test)]
        #[allow(dead_code)]
        pub(crate) const NAMES: &[(&str, bool)] = &[
            $((stringify!($name), true),)+
            $((stringify!($maybe), false),)+
            $((stringify!($other), true),)*
        ];

        impl Driver {
            /// Fills the table with the functions that `find` returns; null: there is none.
            ///
            /// # Errors
            ///
            /// `NotFound` names the first needed function that is missing.
            ///
            /// # Safety
            ///
            /// `find` returns functions of the vendor's library by their names, valid for the
            /// program's life.
            pub(crate) unsafe fn resolve(
                find: impl Fn(&str) -> *mut ::std::ffi::c_void,
            ) -> ::reef_core::Result<Self> {
                let needed = |name: &str| match find(name) {
                    missing if missing.is_null() => Err(Error::NotFound(format!(
                        concat!("the ", $library, " has no {}: older than ", $oldest, "?"),
                        name
                    ))),
                    function => Ok(function),
                };
                Ok(Self {
                    // SAFETY: `find` gives the library's function of this name, for the program's
                    // life: `resolve` demands it. It is not null, and the type is that of the
                    // vendor's header.
                    $($name: unsafe {
                        ::std::mem::transmute::<
                            *mut ::std::ffi::c_void,
                            unsafe extern "C" fn($($type),*) -> u32,
                        >(needed(stringify!($name))?)
                    },)+
                    // SAFETY: `find` gives the library's function of this name, for the program's
                    // life: `resolve` demands it. The type is that of the vendor's header, and null
                    // becomes `None`.
                    $($maybe: unsafe {
                        ::std::mem::transmute::<
                            *mut ::std::ffi::c_void,
                            Option<unsafe extern "C" fn($($mtype),*) -> u32>,
                        >(find(stringify!($maybe)))
                    },)+
                    // SAFETY: `find` gives the library's function of this name, for the program's
                    // life: `resolve` demands it. It is not null, and the type is that of the
                    // vendor's header.
                    $($other: unsafe {
                        ::std::mem::transmute::<
                            *mut ::std::ffi::c_void,
                            unsafe extern "C" fn($($otype),*) -> $output,
                        >(needed(stringify!($other))?)
                    },)*
                })
            }

            $(
                /// # Safety
                ///
                /// As the vendor's manual says of the function.
                #[inline]
                #[allow(dead_code, clippy::too_many_arguments)] // some are only used as fields
                pub(crate) unsafe fn $name(&self, $($arg: $type),*) -> ::reef_core::Result<()> {
                    // SAFETY: `resolve` found the function, and the arguments are as its manual
                    // wants them: this method demands it.
                    self.check(stringify!($name), unsafe { (self.$name)($($arg),*) })
                }
            )+
            $(
                /// # Safety
                ///
                /// As the vendor's manual says of the function.
                #[allow(dead_code)]
                pub(crate) unsafe fn $maybe(&self, $($marg: $mtype),*) -> ::reef_core::Result<()> {
                    let Some(call) = self.$maybe else {
                        let what =
                            concat!(stringify!($maybe), ", which this ", $kind, " doesn't have");
                        return Err(Error::Unsupported { backend: BACKEND, what: what.into() });
                    };
                    // SAFETY: `resolve` found the function, and the arguments are as its manual
                    // wants them: this method demands it.
                    self.check(stringify!($maybe), unsafe { call($($marg),*) })
                }
            )+
        }
    };
}
