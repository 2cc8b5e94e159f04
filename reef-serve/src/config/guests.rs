//! Which unmodified programs may register, and as what.

use serde::Deserialize;
use std::path::PathBuf;

/// Unmodified programs (`reef exec`).
#[derive(Debug, Clone, PartialEq, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Guests {
    /// Makes `guests.sock`, at which they register. Off by default.
    pub listen: bool,
    /// Users, by number, whose programs may be real-time; the daemon's own user always may.
    pub rt_users: Vec<u32>,
    /// Programs, by the absolute paths of their executables, that may be real-time whoever runs them.
    pub rt_programs: Vec<PathBuf>,
}
