//! Scan for violations: logs each once, and revokes classes.

use super::find::{Kind, ScanResult, Violation, find};
use super::revoked::RevokedProcesses;
use reef_guest::limit::JobView;
use reef_guest::page::Class;
use reef_guest::registry::{GuestView, Registry};
use reef_nvml::{Process, Uuid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time for which a state must last that may be transient: a process joins after it has opened its
/// device, and limits are charged with contexts once these exist.
const MIN_DURATION: Duration = Duration::from_secs(10);

/// Violations found so far, and their handling.
#[derive(Debug)]
pub(in crate::guests) struct Violations {
    registry: Weak<Registry>,
    revoked: Arc<RevokedProcesses>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Begin of each one, and whether it has lasted long enough to be reported.
    since: BTreeMap<Violation, (Instant, bool)>,
    counts: BTreeMap<Kind, u64>,
}

impl Violations {
    pub(in crate::guests) fn new(registry: &Arc<Registry>, revoked: Arc<RevokedProcesses>) -> Self {
        Self { registry: Arc::downgrade(registry), revoked, state: Mutex::default() }
    }

    /// Returns the current ones that have lasted long enough.
    pub(in crate::guests) fn now(&self) -> Vec<Violation> {
        let state = self.state();
        let reported = state.since.iter().filter(|(_, (_, is_reported))| *is_reported);
        reported.map(|(violation, _)| violation.clone()).collect()
    }

    /// Number of violations of a kind since the daemon started.
    pub(in crate::guests) fn count(&self, kind: Kind) -> u64 {
        self.state().counts.get(&kind).copied().unwrap_or(0)
    }

    /// Runs one scan. `processes` lists the processes on a device; `None` if they are unknown.
    pub(in crate::guests) fn scan(
        &self,
        jobs: &[JobView],
        processes: impl Fn(&Uuid) -> Option<Vec<Process>>,
        now: Instant,
    ) {
        let Some(registry) = self.registry.upgrade() else { return };
        self.revoked.forget_ended();
        let guests = registry.guests();
        let found = find(&guests, jobs, processes);
        self.note(&found, now).iter().for_each(|line| tracing::warn!("violation: {line}"));
        guests
            .iter()
            .filter(|guest| guest.fault.is_some())
            .for_each(|it| self.revoke(&registry, it));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lines of new violations that have lasted long enough, and counts them.
    fn note<'a>(&self, found: &'a ScanResult, now: Instant) -> Vec<&'a str> {
        let mut state = self.state();
        let State { since, counts } = &mut *state;
        since.retain(|violation, _| found.contains_key(violation));
        let mut new = Vec::new();
        for (violation, line) in found {
            let (begun, is_reported) = since.entry(violation.clone()).or_insert((now, false));
            let has_lasted = violation.kind == Kind::Page || now - *begun >= MIN_DURATION;
            if has_lasted && !*is_reported {
                *is_reported = true;
                *counts.entry(violation.kind).or_default() += 1;
                new.push(line.as_str());
            }
        }
        new
    }

    /// Revokes a real-time class. A best-effort guest stays, because its release would open its
    /// gates.
    fn revoke(&self, registry: &Registry, guest: &GuestView) {
        if guest.who.class == Class::RealTime {
            self.revoked.add(guest.who.pid);
            registry.revoke(guest.who.guest);
            tracing::warn!("class rt of process {} is revoked", guest.who.pid);
        }
    }
}
