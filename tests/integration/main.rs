//! Tests of clients of a device: what they get, and what goes wrong. Each of the other test files
//! is a program of its own: it counts allocations, compares times, or is built for several
//! backends.
#![cfg(feature = "cpu")]

mod failures;
mod real_time;
