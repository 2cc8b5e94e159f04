//! A daemon that owns devices and serves real-time and best-effort inference to many processes.
//!
//! ```text
//! gRPC ──┐                                  ┌─► Queue RT ─► Instance ─┐
//!        ├─► InferRequest ─► LoadedModel ───┤                         ├─► Dispatcher ─► device
//! HTTP ──┘                                  └─► Queue BE ─► Instance ─┤
//! shared memory ─► Session ─► an Instance of its own ─────────────────┘
//! ```
//!
//! The standard protocol is that of KServe v2 with Triton's extensions, over gRPC and HTTP.
//! Connections are asynchronous. From the queue of a model on, everything is a plain thread, and
//! the [`Dispatcher`](reef::Dispatcher) decides the order.
//!
//! Folders, from the top; a file imports only from those below it.
//!
//! | folder | contents |
//! |---|---|
//! | `daemon`, `reload`, `preflight` | signals, the drain at the end; SIGHUP; `--check` |
//! | `endpoints` | all listeners |
//! | `systemd` | sockets from a service manager, and notifications to it |
//! | `kserve` | the standard protocol: one request type, HTTP and gRPC on top of it |
//! | `guests` | unmodified programs: registration, limits, violations |
//! | `local` | the protocol in shared memory, and its client |
//! | `server` | state shared by all protocols |
//! | `models` | known models, loaded models, their costs |
//! | `observe` | metrics, statistics, traces |
//! | `process` | models that are processes |
//! | `residency` | processes and networks that are on their device on demand |
//! | `suspend` | programs whose memory leaves the GPU and comes back |
//! | `requests` | one inference, its queue, its shared memory |
//! | `tenants` | rights of each principal, and its use |
//! | `net` | sockets, peers, tokens, TLS, admission |
//! | `engine` | the devices |
//! | `config` | the configuration |
//! | `log_level`, `malloc` | changes of the log's level; return of memory to the system |

#![cfg_attr(test, allow(clippy::disallowed_methods))]
#![deny(unsafe_code)]

mod class;
pub mod config;
mod daemon;
mod endpoints;
mod engine;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guests;
mod kserve;
mod local;
mod log_level;
mod malloc;
mod models;
mod name;
mod net;
mod observe;
mod preflight;
mod process;
mod reload;
mod requests;
mod residency;
mod server;
mod suspend;
mod systemd;
mod tenants;
mod tensor;

pub use class::{Class, Rate};
pub use config::settings::Config;
pub use daemon::{Endpoints, run, run_reloading};
pub use error::{Error, Result};
pub use local::client::connection::Client;
pub use local::client::options::{Options, Timing};
pub use local::client::pending::Pending;
pub use log_level::on_log_level;
pub use name::ModelName;
pub use net::folder::{connect, folder, make_folder, no_daemon};
pub use net::listener::listen_owner;
pub use preflight::check;
