//! The local path: a client that sends and writes any bytes, and another one that must not be
//! affected.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reef_serve::fuzzing::local(bytes));
