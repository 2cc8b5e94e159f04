//! The local path: a client that says and writes what it likes, beside one that must not notice.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reef_serve::fuzzing::local(bytes));
