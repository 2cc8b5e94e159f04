//! Messages between unmodified programs and the daemon: what comes over the socket, whichever end reads it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reef_guest::fuzzing::message(bytes));
