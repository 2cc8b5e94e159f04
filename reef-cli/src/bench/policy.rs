//! What is compared: schedulers, with the length of the best-effort hardware queues.

use crate::Usage;
use reef::scheduler::{self, Reef, Scheduler};
use reef::{ClientConfig, Config, PreemptLevel};

/// A scheduler as a row of a table.
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) scheduler: Box<dyn Scheduler>,
    /// Commands that the hardware has at once, unless the row says it itself.
    pub(super) window: Option<u64>,
}

impl Policy {
    /// One that [`scheduler::by_name`] knows.
    pub(super) fn named(name: &str) -> Self {
        let scheduler = scheduler::by_name(name).expect("a name from a list of ours");
        Self { name: name.into(), scheduler, window: None }
    }

    /// REEF as deep as `level`.
    pub(super) fn reef(level: PreemptLevel, pad: bool) -> Self {
        let reef = if pad { Reef::default() } else { Reef::without_padding() };
        let scheduler: Box<dyn Scheduler> = Box::new(reef.level(level));
        Self { name: scheduler.name().into(), scheduler, window: None }
    }

    /// Preemption at `level` without padding, under the name of the level.
    pub(super) fn at(level: PreemptLevel) -> Self {
        Self { name: level.to_string(), ..Self::reef(level, false) }
    }

    /// Preemption of the virtual queue alone, with `window` commands on the hardware.
    pub(super) fn host_queue(window: u64) -> Self {
        let name = format!("{}/{window}", PreemptLevel::HostQueue);
        Self { name, window: Some(window), ..Self::at(PreemptLevel::HostQueue) }
    }

    /// How a best-effort client is set up; `window` is for policies that leave it open.
    pub(super) fn client(&self, window: u64) -> ClientConfig {
        let window = self.window.unwrap_or(window);
        let queue = Config { window, level: self.scheduler.level(), ..Config::default() };
        ClientConfig { queue, ..ClientConfig::default() }
    }
}

/// Keeps those that the device is deep enough for and, if `only` has names, those with such a name.
pub(super) fn choose(
    policies: Vec<Policy>,
    only: &[String],
    deepest: PreemptLevel,
) -> Result<Vec<Policy>, Usage> {
    let names: Vec<_> = policies.iter().map(|policy| policy.name.clone()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        return Err(Usage(format!("no scheduler {unknown:?} (have: {})", names.join(", "))));
    }
    let wanted = |policy: &Policy| only.is_empty() || only.contains(&policy.name);
    let fits = |policy: &Policy| policy.scheduler.level() <= deepest;
    Ok(policies.into_iter().filter(|policy| wanted(policy) && fits(policy)).collect())
}

/// Refuses windows that no queue can have.
pub(super) fn check_windows(option: &str, windows: &[u64]) -> Result<(), Usage> {
    let most = Config::default().capacity as u64;
    match windows.iter().find(|&&window| window == 0 || window > most) {
        None => Ok(()),
        Some(wrong) => Err(Usage(format!("{option} must be in 1..={most}, got {wrong}"))),
    }
}
