//! A vendor whose device is the host's memory, for tests.
//!
//! In: the calls of a vendor. Out: what was put into streams, and which blocks have taken effect.
//! Streams note what is put into them; what they write arrives at once, or when the test says so.
//! Guarded kernels claim their blocks and give them back as kernels/reef.h does; what they compute
//! is left out. Invariant: memory stays for as long as the process, so every address that was given
//! is one.

mod blocks;
mod calls;
mod device;

pub(crate) use device::{Fake, Put};
