//! A daemon that owns a device and serves real-time and best-effort inference to many processes.
//!
//! ```text
//! gRPC ──┐                        ┌─► Queue RT ─► lane ─┐
//!        ├─► v2 ─► Server ─► model┤                     ├─► Dispatcher ─► device
//! HTTP ──┘                        └─► Queue BE ─► lane ─┘
//! ```
//!
//! The standard protocol is that of KServe v2 with Triton's extensions, over gRPC and HTTP. Connections
//! are asynchronous; from the queue of a model on, everything is a plain thread, and who runs when is the
//! [`Dispatcher`](reef::Dispatcher)'s to decide.

#![deny(unsafe_code)]

mod auth;
mod budget;
mod catalogue;
mod class;
mod clients;
pub mod config;
mod daemon;
mod door;
mod engine;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
mod http;
mod job;
mod listen;
mod local;
mod metrics;
mod model;
mod name;
pub mod perfetto;
mod queue;
mod regions;
mod repository;
mod server;
mod stats;
mod tensor;
mod tls;
mod trace;
mod v2;
mod watch;

pub use class::Class;
pub use config::Config;
pub use daemon::{Places, run};
pub use error::{Error, Result};
pub use listen::folder;
pub use local::{Client, Options, Timing};
pub use name::ModelName;
