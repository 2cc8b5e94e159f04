//! Worker: a process that makes the driver's calls for one program of another machine.
//!
//! ```text
//! program's library ──frames──▶ reader ──queue──▶ executor ──▶ driver
//!                   ◀─replies── waiters ◀─calls that block──┘
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `server` | greets programs, and starts a process for each session |
//! | `cage` | walls around a worker: what the system refuses it, and what it starts with |
//! | `control` | the socket between the server and a worker |
//! | `notices` | what a worker tells the server of its sessions |
//! | `reader` | words of a message's body |
//! | `bounded` | lists of a state that another server sends |
//! | `process`, `arguments` | a worker's process and its command line |
//! | `session` | the session of this process: what is admitted, the reader |
//! | `executor` | one thread that makes all calls in the order of the session |
//! | `requests` | what each message becomes |
//! | `migration` | a session in another process: its log, its state, its copies |
//! | `state` | what the threads share: handles, staging memory, host calls, threads that wait |
//! | `driver` | the driver's functions |
//!
//! *In*: messages of `reef-remote-calls`. *Out*: replies, and failures of calls without reply.
//! *Invariant*: calls begin in the order of the session. No number that a client sends is used as
//! an address of this process's host memory.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod arguments;
mod bounded;
mod cage;
mod control;
mod driver;
mod executor;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod migration;
mod notices;
mod process;
mod reader;
mod requests;
mod server;
mod session;
mod state;

pub use arguments::Arguments;
pub use migration::commands::{
    Destination, MigrationReport, SessionName, listen_for_server, migrate, restore, snapshot,
};
pub use process::run_worker;
pub use server::{WorkerOptions, Workers};
