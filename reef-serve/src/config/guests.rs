//! Which unmodified programs may register, and as what.

use crate::error::{Error, Result};
use reef_guest::registry::Rules;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Unmodified programs (`reef exec`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guests {
    /// Makes `guests.sock`, at which they register. Off by default.
    pub listen: bool,
    /// Programs, by the absolute paths of their executables, that may be real-time whoever runs
    /// them; besides those of users, and with tokens, that have the [right](crate::config::Right).
    pub rt_programs: Vec<PathBuf>,
    /// Most guests of one user: processes, each on one device.
    pub per_user: usize,
    /// For how long, in milliseconds, a real-time program holds others without a sign that it is at
    /// work: a launch, or work that has ended.
    pub hold_ms: u64,
    /// Containers that register as Alnair's do. `None`: nobody may.
    pub alnair: Option<Alnair>,
}

impl Default for Guests {
    fn default() -> Self {
        let Rules { per_user, hold_timeout } = Rules::default();
        let hold_ms = u64::try_from(hold_timeout.as_millis()).unwrap_or(u64::MAX);
        Self { listen: false, rt_programs: Vec::new(), per_user, hold_ms, alnair: None }
    }
}

impl Guests {
    /// What is out of range.
    pub(super) fn check(&self) -> Result<()> {
        let values =
            [("per_user", self.per_user as u64, 100_000), ("hold_ms", self.hold_ms, 3_600_000)];
        match values.iter().find(|(_, value, most)| !(1..=*most).contains(value)) {
            None => Ok(()),
            Some((key, value, most)) => {
                Err(Error::Invalid(format!("guests.{key}: must be 1 to {most}, got {value}")))
            }
        }
    }

    /// What holds for all guests, from the start of the daemon to its end.
    pub(crate) fn rules(&self) -> Rules {
        let hold_timeout = Duration::from_millis(self.hold_ms);
        Rules { per_user: self.per_user, hold_timeout }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_named() {
        let said =
            |text: &str| toml::from_str::<Guests>(text).unwrap().check().map_err(|e| e.to_string());
        assert_eq!(said("hold_ms = 100\nper_user = 1"), Ok(()));
        assert_eq!(said("per_user = 0"), Err("guests.per_user: must be 1 to 100000, got 0".into()));
        assert_eq!(said("hold_ms = 0"), Err("guests.hold_ms: must be 1 to 3600000, got 0".into()));
    }
}
