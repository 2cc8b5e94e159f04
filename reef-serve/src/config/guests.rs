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
    /// Containers that register as Alnair's do. `None`: nobody may.
    pub alnair: Option<Alnair>,
}

/// Alnair's registration of containers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alnair {
    /// Where they register.
    #[serde(default = "socket")]
    pub socket: PathBuf,
    /// The folder that gets one for each container.
    pub root: PathBuf,
}

fn socket() -> PathBuf {
    "/run/alnair/alnair.sock".into()
}
