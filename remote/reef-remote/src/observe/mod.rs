//! Sessions of a server as its operator sees them.
//!
//! *In*: sessions as they begin and end, and clients that get none. *Out*: a list with the traffic
//! of each, numbers for Prometheus, and the end of a session. *Invariant*: sums never shrink:
//! what a session had is added to them when it ends. A session's secret name is not here; its
//! number opens nothing.

mod metrics;
pub(crate) mod refusal;
pub(crate) mod sessions;

pub use refusal::Refusal;
pub use sessions::{Facts, Kind, Registration, SessionCounts, SessionView, Sessions, Watched};
