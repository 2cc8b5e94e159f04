//! Messages between unmodified programs and the daemon: what comes over the socket, whichever end
//! reads it; and pages that programs have filled with anything.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    reef_guest::fuzzing::message(bytes);
    reef_guest::fuzzing::page(bytes);
});
