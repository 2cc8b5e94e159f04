//! Frames between a program and the machine with its accelerator, in pieces of any length. Each
//! body is read as each message of the handshake.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reef_wire::fuzzing::frames(bytes));
