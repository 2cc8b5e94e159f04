//! The server: greets programs, and hands each connection to the worker of its session.
//!
//! ```text
//! program ──connection──▶ Workers: TLS, token ──the socket itself──▶ worker
//!                                             ──or a bridge of TLS─▶
//! ```
//!
//! A session that moves to another server connects there by a `proxy`.
//!
//! *In*: connections of clients. *Out*: a process for each session, and connections that it may
//! trust. *Invariant*: a worker has no token and no key, and gets a connection of its own session
//! alone. A client that is slow to say what it wants holds up itself alone.

mod bridge;
mod options;
pub(crate) mod proxy;
mod worker;
mod workers;

pub use options::WorkerOptions;
pub use workers::Workers;
