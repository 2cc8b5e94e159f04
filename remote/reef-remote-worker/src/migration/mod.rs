//! A session in another process: what has made its objects, and what its memory holds.
//!
//! ```text
//! messages ──▶ notes ──▶ log ─┐
//! window, globals ──▶ memory ─┴─▶ state ──▶ file, or another server ──▶ state ──▶ session
//! ```
//!
//! *In*: messages, and their outcomes. *Out*: the state of a session at a point at which nothing
//! runs, and a session that is made of it. *Invariant*: what is made of a state has the same
//! numbers, the same addresses and the same bytes, or it is not made.

pub(crate) mod commands;
mod copy;
mod digest;
mod file;
mod globals;
pub(crate) mod make;
pub(crate) mod memory;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod take;
pub(crate) mod target;
