//! Which unmodified programs may register, and as what.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Unmodified programs (`reef exec`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Guests {
    /// Makes `guests.sock`, at which they register. Off by default.
    pub listen: bool,
    /// Programs, by the absolute paths of their executables, that may be real-time whoever runs them; besides those of
    /// users, and with tokens, that have the [right](crate::config::Right).
    pub rt_programs: Vec<PathBuf>,
}
