//! Models that are processes: a program of the repository answers their requests.
//!
//! ```text
//! ProcessModel ── Supervisor (one per instance): a thread that starts the program, and waits
//!                   │               for its end
//!                   ├── WarmFolder: the folder from which it starts with its memory
//!                   └── Connection: frames over the program's standard input
//! ```
//!
//! - **In**: the program of a `model.toml`, one request or batch at a time for each instance.
//! - **Out**: its answers; its output, in the log.
//! - **Invariant**: a process has at most one request or batch, and each request gets one answer or
//!   one error. A process that breaks the protocol, or does not react to a cancelled request in
//!   time, is killed and started again. No process outlives its model, or the daemon.
//!
//! `docs/reference/process-protocol.md` has the bytes.

mod batch;
mod connection;
mod frame;
mod message;
pub(crate) mod model;
mod patience;
pub(crate) mod settings;
mod start;
mod supervisor;
mod user;
