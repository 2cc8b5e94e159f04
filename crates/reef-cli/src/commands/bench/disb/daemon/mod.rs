//! A workload against a running daemon: each client is a process of its own, as in DISB.
//!
//! ```text
//! parent ── stdin: orders ─► `reef bench disb FILE --daemon --as-client ID` ─ local path ─► daemon
//!        ◄─ stdout: replies ──
//! ```
//!
//! The parent reads the workload, says when all begin, and passes results on to clients that depend
//! on them; when a client launches, it decides by itself. A client ends when its stdin does, so
//! none outlives the parent.

pub(crate) mod child;
pub(crate) mod clients;
pub(crate) mod message;
pub(crate) mod process;
