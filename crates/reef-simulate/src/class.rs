//! Real-time or best-effort.

use serde::{Deserialize, Serialize};

/// Real-time or best-effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Real-time.
    Rt,
    /// Best-effort.
    Be,
}
