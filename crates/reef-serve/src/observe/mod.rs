//! Observability of the daemon: metrics, statistics, traces.
//!
//! - **In**: requests as they end, instances as they work, the state of the daemon on demand.
//! - **Out**: text for Prometheus, sums for the standard protocol, trace events for Perfetto.
//! - **Invariant**: nothing here changes a request; while no trace is recorded, tracing costs a
//!   request one relaxed load.

pub(crate) mod answers;
pub(crate) mod devices;
pub(crate) mod exposition;
mod guests;
pub(crate) mod latency;
pub(crate) mod metrics;
pub(crate) mod observer;
mod process;
pub(crate) mod recording;
pub(crate) mod residency;
pub(crate) mod scrapes;
pub(crate) mod series;
pub(crate) mod shares;
pub(crate) mod stats;
pub(crate) mod tracer;
pub(crate) mod triton;
