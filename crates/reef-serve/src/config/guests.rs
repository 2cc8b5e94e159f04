//! Registration of unmodified programs: limits and classes.

use crate::error::{Error, Result};
use reef_guest::colocation::{Caps, Percent, Slo};
use reef_guest::registry::Rules;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Longest time for which a thread polls.
const MAX_WATCH_MS: u64 = 10_000;

/// Settings for unmodified programs (`reef exec`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guests {
    /// Creates `guests.sock`, at which they register. Off by default.
    pub listen: bool,
    /// Programs that may be real-time for every user, by the absolute paths of their executables.
    /// Users and tokens with the [right](crate::config::Right) may be real-time as well.
    pub rt_programs: Vec<PathBuf>,
    /// Maximum number of guests of one user: processes, each on one device.
    pub per_user: usize,
    /// Time in milliseconds after which a real-time program without a sign of work no longer holds
    /// the others. A sign is a launch, or work that has ended.
    pub hold_ms: u64,
    /// Time in milliseconds for which the daemon polls a real-time program's word after a hold, on
    /// a processor of its own, so that the next hold begins at once. At most one in eight
    /// processors polls. 0: it sleeps.
    pub watch_ms: u64,
    /// Part of the time, in percent, in which best-effort programs without a wish of their own
    /// (`reef exec --colocate`) run while real-time programs are busy.
    pub colocate: u8,
    /// Part of the time, in percent, that they have whatever real-time programs do.
    pub floor: u8,
    /// Target for the latency of real-time programs without a wish of their own (`reef exec
    /// --slo`), as a multiple of that alone: as much best-effort work runs as keeps it. 0: none.
    pub slo: f64,
    /// Period in microseconds in which a best-effort program has one window next to busy real-time
    /// programs.
    pub colocate_period_us: u64,
    /// Suspends best-effort programs while a real-time program needs their memory: one that is
    /// refused memory, or that asks for it (`reef exec --reserve`). Off by default.
    pub suspend: bool,
    /// Shortest time in milliseconds between two returns of a program that was suspended for
    /// memory.
    pub suspend_interval_ms: u64,
    /// Registration of Alnair's containers; off if `None`.
    pub alnair: Option<Alnair>,
}

impl Default for Guests {
    fn default() -> Self {
        let Rules { per_user, hold_timeout, watch, colocate_period, .. } = Rules::default();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            listen: false,
            rt_programs: Vec::new(),
            per_user,
            hold_ms: millis(hold_timeout),
            watch_ms: millis(watch),
            colocate: 0,
            floor: 0,
            slo: 0.0,
            colocate_period_us: u64::try_from(colocate_period.as_micros()).unwrap_or(u64::MAX),
            suspend: false,
            suspend_interval_ms: 60_000,
            alnair: None,
        }
    }
}

impl Guests {
    /// Refuses values out of range.
    pub(super) fn check(&self) -> Result<()> {
        let values = [
            ("per_user", self.per_user as u64, 100_000),
            ("hold_ms", self.hold_ms, 3_600_000),
            ("suspend_interval_ms", self.suspend_interval_ms, 86_400_000),
        ];
        self.check_next_to()?;
        match values.iter().find(|(_, value, max)| !(1..=*max).contains(value)) {
            None if self.watch_ms > MAX_WATCH_MS => Err(Error::Invalid(format!(
                "guests.watch_ms must be 0 to {MAX_WATCH_MS}, got {}",
                self.watch_ms
            ))),
            None => self.check_listens(),
            Some((key, value, max)) => {
                Err(Error::Invalid(format!("guests.{key} must be 1 to {max}, got {value}")))
            }
        }
    }

    /// Refuses values for what runs next to real-time programs.
    fn check_next_to(&self) -> Result<()> {
        for (key, value) in [("colocate", self.colocate), ("floor", self.floor)] {
            if Percent::new(value).is_none() {
                return Err(Error::Invalid(format!("guests.{key} must be 0 to 100, got {value}")));
            }
        }
        if self.slo != 0.0 && Slo::of(self.slo).is_none() {
            let slo = self.slo;
            return Err(Error::Invalid(format!("guests.slo must be 0 or 1.01 to 10, got {slo}")));
        }
        if !(100..=1_000_000).contains(&self.colocate_period_us) {
            let period = self.colocate_period_us;
            return Err(Error::Invalid(format!(
                "guests.colocate_period_us must be 100 to 1000000, got {period}"
            )));
        }
        Ok(())
    }

    /// Refuses what has no effect, because no program can register.
    fn check_listens(&self) -> Result<()> {
        let given = [
            ("rt_programs", !self.rt_programs.is_empty()),
            ("colocate", self.colocate > 0),
            ("floor", self.floor > 0),
            ("slo", self.slo != 0.0),
            ("suspend", self.suspend),
            ("alnair", self.alnair.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given && !self.listen) {
            None => Ok(()),
            Some((key, _)) => Err(Error::Invalid(format!(
                "guests.{key} requires guests.listen = true (reef serve --guests)"
            ))),
        }
    }

    /// Returns what a program is allowed that may have as much as these upper bounds.
    pub(crate) fn caps(&self, max_colocate: u8, max_floor: u8) -> Caps {
        let percent = |percent: u8| Percent::new(percent).unwrap_or(Percent::ALL);
        Caps {
            colocate: percent(self.colocate),
            floor: percent(self.floor),
            max_colocate: percent(max_colocate),
            max_floor: percent(max_floor),
            slo: Slo::of(self.slo),
            ..Caps::default()
        }
    }

    pub(crate) fn memory_settings(&self) -> MemorySettings {
        let interval = Duration::from_millis(self.suspend_interval_ms);
        MemorySettings { is_on: self.suspend, interval }
    }

    /// Returns the rules for all guests, fixed at the start of the daemon.
    pub(crate) fn rules(&self) -> Rules {
        let hold_timeout = Duration::from_millis(self.hold_ms);
        let watch = Duration::from_millis(self.watch_ms);
        let colocate_period = Duration::from_micros(self.colocate_period_us);
        let per_user = self.per_user;
        Rules { per_user, hold_timeout, watch, colocate_period, ..Rules::default() }
    }
}

/// Settings of the policy for memory, read at each request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemorySettings {
    pub(crate) is_on: bool,
    /// Shortest time between two returns of a guest.
    pub(crate) interval: Duration,
}

/// Alnair's registration of containers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alnair {
    /// Socket at which they register.
    #[serde(default = "socket")]
    pub socket: PathBuf,
    /// Folder that gets a folder for each container.
    pub root: PathBuf,
}

fn socket() -> PathBuf {
    "/run/alnair/alnair.sock".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_out_of_range_is_refused_by_key() {
        let said =
            |text: &str| toml::from_str::<Guests>(text).unwrap().check().map_err(|e| e.to_string());
        assert_eq!(said("hold_ms = 100\nper_user = 1"), Ok(()));
        assert_eq!(said("per_user = 0"), Err("guests.per_user must be 1 to 100000, got 0".into()));
        assert_eq!(said("watch_ms = 0"), Ok(()));
        let error = "guests.watch_ms must be 0 to 10000, got 20000".to_owned();
        assert_eq!(said("watch_ms = 20000"), Err(error));
        assert_eq!(said("hold_ms = 0"), Err("guests.hold_ms must be 1 to 3600000, got 0".into()));
        for (text, error) in [
            ("floor = 200", "guests.floor must be 0 to 100, got 200"),
            ("slo = 1.0", "guests.slo must be 0 or 1.01 to 10, got 1"),
            ("slo = nan", "guests.slo must be 0 or 1.01 to 10, got NaN"),
        ] {
            assert_eq!(said(text), Err(error.into()));
        }
        let changed = |change: fn(&mut Guests)| {
            let mut guests = Guests::default();
            change(&mut guests);
            guests.check().map_err(|error| error.to_string())
        };
        let error = changed(|guests| guests.colocate = 101).unwrap_err();
        assert!(error.ends_with("must be 0 to 100, got 101"), "{error}");
        let error = changed(|guests| guests.colocate_period_us = 99).unwrap_err();
        assert!(error.ends_with("_period_us must be 100 to 1000000, got 99"), "{error}");
        assert_eq!(said("listen = true\nfloor = 5\nslo = 1.1"), Ok(()));
    }

    #[test]
    fn settings_of_guests_require_that_they_can_register() {
        let said =
            |text: &str| toml::from_str::<Guests>(text).unwrap().check().map_err(|e| e.to_string());
        for (text, key) in [
            ("rt_programs = [\"/bin/x\"]", "rt_programs"),
            ("colocate = 10", "colocate"),
            ("floor = 5", "floor"),
            ("slo = 1.1", "slo"),
            ("suspend = true", "suspend"),
            ("alnair = { root = \"/x\" }", "alnair"),
        ] {
            let why = format!("guests.{key} requires guests.listen = true (reef serve --guests)");
            assert_eq!(said(text), Err(why));
            assert_eq!(said(&format!("listen = true\n{text}")), Ok(()), "{key}");
        }
        assert_eq!(said("hold_ms = 500\nslo = 0"), Ok(()));
    }
}
