//! What we believe of the runtime's binary interface, against the library of this machine, and against
//! what was printed from the headers of HIP 5.2.3, 5.7.1, 6.4.3 and 7.1.0, where all of these numbers are
//! the same.

use crate::driver::{self, Driver, NAMES, Version};
use libloading::Library;
use reef_core::Error;
use std::ffi::c_void;

/// The library, or `None`, said aloud.
fn library() -> Option<Library> {
    match driver::library() {
        Ok(library) => Some(library),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn exports(library: &Library, name: &str) -> bool {
    // SAFETY: only the address is taken.
    unsafe { library.get::<*mut c_void>(name) }.is_ok()
}

#[test]
fn the_library_has_every_function_that_we_need() {
    let Some(library) = library() else { return };
    let missing: Vec<_> =
        NAMES.iter().filter(|(name, needed)| *needed && !exports(&library, name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_may_be_missing_is_missing_in_old_versions_only() {
    let Some(library) = library() else { return };
    // SAFETY: the functions are those of the library, which outlives the table.
    let driver = unsafe {
        Driver::resolve(|name| {
            library.get::<*mut c_void>(name).map_or(std::ptr::null_mut(), |s| *s)
        })
    };
    let version = driver.unwrap().version().expect("this one works without a device");
    assert!(version.major >= 5, "{version}");
    for (name, needed) in NAMES {
        let since = if name.ends_with("R0600") { Version::from(60_000_000) } else { version };
        let due = *needed || version >= since;
        assert_eq!(exports(&library, name), due, "{name} in {version}");
    }
}

#[test]
fn without_a_device_the_library_is_said_to_be_there() {
    let Some(_library) = library() else { return };
    match Driver::get() {
        Ok(_) => eprintln!("skipped: this machine has a device"),
        Err(Error::NotFound(text)) => {
            let codes = ["hipErrorNoDevice (code 100)", "hipErrorInvalidDevice (code 101)"];
            assert!(text.starts_with("a HIP runtime, but no device: hipInit: "), "{text}");
            assert!(codes.iter().any(|code| text.ends_with(code)), "{text}");
        }
        Err(other) => panic!("{other}"),
    }
}
