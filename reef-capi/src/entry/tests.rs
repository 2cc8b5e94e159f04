//! Panics at the boundary, and what C's bad arguments lead to.

use crate::entry::client::*;
use crate::entry::device::*;
use crate::entry::dispatcher::*;
use crate::entry::library::*;
use crate::entry::network::*;
use crate::entry::request::*;
use crate::guard::injected::panic_next;
use crate::status::*;
use std::ffi::CStr;
use std::ptr::{null, null_mut};

/// A function's name, and a call of it.
type Call = (&'static str, Box<dyn Fn() -> reef_status>);

/// Every function that can fail, with nothing to work on.
#[rustfmt::skip]
fn calls() -> Vec<Call> {
    macro_rules! calls {
        ($($name:ident($($arg:expr),*)),* $(,)?) => {
            // SAFETY: null is allowed everywhere.
            vec![$((stringify!($name), Box::new(#[allow(unused_unsafe)] || unsafe { $name($($arg),*) }))),*]
        };
    }
    calls!(
        reef_device_open(null(), null_mut()),
        reef_device_free(null_mut()),
        reef_device_get_info(null(), null_mut()),
        reef_device_get_name(null(), null_mut(), 0, null_mut()),
        reef_network_load(null(), null(), null(), null_mut()),
        reef_network_new_instance(null(), null_mut()),
        reef_network_free(null_mut()),
        reef_network_get_info(null(), null_mut()),
        reef_network_write_input(null(), null(), 0),
        reef_network_read_output(null(), null_mut(), 0),
        reef_dispatcher_start(null(), null(), null_mut()),
        reef_dispatcher_free(null_mut()),
        reef_dispatcher_get_stats(null(), null_mut()),
        reef_client_open(null(), 0, null(), null_mut()),
        reef_client_free(null_mut()),
        reef_client_submit(null(), null(), 0, null_mut()),
        reef_client_run(null(), null(), null(), 0, null_mut(), 0, 0),
        reef_request_wait(null(), 0),
        reef_request_cancel(null(), null_mut()),
        reef_request_get_timing(null(), null_mut()),
        reef_request_free(null_mut()),
    )
}

fn message() -> &'static str {
    // SAFETY: a string of the library's, which this thread looks at before it calls anything else.
    unsafe { CStr::from_ptr(reef_error_message()) }.to_str().unwrap()
}

#[test]
fn a_panic_becomes_an_error() {
    for (name, call) in calls() {
        panic_next();
        assert_eq!(call(), REEF_INTERNAL, "{name}");
        assert_eq!(message(), "a fault of the library: injected", "{name}");
        assert_ne!(call(), REEF_INTERNAL, "{name}: the next call");
    }
}

#[test]
fn every_function_of_the_header_is_tested_for_panics() {
    let header = include_str!("../../include/reef.h");
    let words = header.split(|c: char| !c.is_alphanumeric() && c != '_');
    let declared = header.match_indices("\nreef_status reef_").count();
    let tested = calls().iter().filter(|(name, _)| words.clone().any(|w| w == *name)).count();
    assert_eq!((tested, calls().len()), (declared, declared));
}

#[test]
fn nothing_is_refused_and_freed_without_harm() {
    for (name, call) in calls() {
        let status = call();
        let want: &[_] =
            if name.ends_with("_free") { &[REEF_OK] } else { &[REEF_INVALID, REEF_HANDLE] };
        assert!(want.contains(&status), "{name}: {status}");
    }
}
