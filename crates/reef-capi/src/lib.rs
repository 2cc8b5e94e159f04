//! REEF for C and C++: what `reef.h` declares.
//!
//! ```text
//! C ──► entry (checks, no unwinding) ──► reef_any (a type for all devices) ──► reef::Dispatcher<D>
//!          │                                ▲
//!          └──────── handles ───────────────┘
//! ```
//!
//! * C holds *handles*, numbers that are never used twice, so that one that was freed or is of
//!   another kind is an error and no accident.
//! * Each function catches panics and answers with a status; its text is the thread's
//!   ([`reef_error_message`]).
//! * Structures begin with their size, so that programs and libraries of different versions fit.
//!
//! Rust programs use the crate `reef` and not this one.

#![allow(non_camel_case_types, reason = "C's names")]

mod entry;
mod fault;
mod guard;
mod handles;
mod status;

pub use entry::client::*;
pub use entry::device::*;
pub use entry::dispatcher::*;
pub use entry::library::*;
pub use entry::network::*;
pub use entry::request::*;
pub use entry::tensor::*;
pub use entry::types::*;
pub use status::*;
