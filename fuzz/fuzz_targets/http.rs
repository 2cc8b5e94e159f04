//! Inference over HTTP: JSON and the tensors behind it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reef_serve::fuzzing::http(bytes));
