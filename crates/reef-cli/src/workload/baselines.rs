//! Baselines that REEF is compared with, the same everywhere.

/// Schedulers that run both classes, REEF's two last. `rt-only` comes with real-time work alone.
pub(crate) const BOTH: [&str; 6] =
    ["sequential", "streams", "stream-priority", "wait-based", "reset", "reef"];
/// Under which best-effort work alone is measured: nothing of it is ever stopped.
pub(crate) const BE_ALONE: &str = "streams";
