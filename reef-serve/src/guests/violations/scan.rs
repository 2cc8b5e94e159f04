//! Looks for violations, says each once, and takes classes away.

use super::find::{Found, Kind, Violation, find};
use super::revoked::Revoked;
use reef_guest::limit::JobView;
use reef_guest::page::Class;
use reef_guest::registry::{GuestView, Registry};
use reef_nvml::{Process, Uuid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// For how long something has to be so that may be so for a moment: a process joins after it has
/// opened its device, and limits are charged with contexts once these are there.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was found, and what becomes of it.
#[derive(Debug)]
pub(in crate::guests) struct Violations {
    registry: Weak<Registry>,
    revoked: Arc<Revoked>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Since when each has been so, and whether that was long enough to say it.
    since: BTreeMap<Violation, (Instant, bool)>,
    counted: BTreeMap<Kind, u64>,
}

impl Violations {
    pub(in crate::guests) fn new(registry: &Arc<Registry>, revoked: Arc<Revoked>) -> Self {
        Self { registry: Arc::downgrade(registry), revoked, state: Mutex::default() }
    }

    /// Those that are so now and were long enough.
    pub(in crate::guests) fn now(&self) -> Vec<Violation> {
        let state = self.state();
        let said = state.since.iter().filter(|(_, (_, is_said))| *is_said);
        said.map(|(violation, _)| violation.clone()).collect()
    }

    /// How many of a kind there were since the daemon started.
    pub(in crate::guests) fn counted(&self, kind: Kind) -> u64 {
        self.state().counted.get(&kind).copied().unwrap_or(0)
    }

    /// Looks at everything once. `processes` says who is on a device; `None`: nobody knows.
    pub(in crate::guests) fn look(
        &self,
        jobs: &[JobView],
        processes: impl Fn(&Uuid) -> Option<Vec<Process>>,
        now: Instant,
    ) {
        let Some(registry) = self.registry.upgrade() else { return };
        self.revoked.forget_the_dead();
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

    /// What is to be said now: new ones that have lasted. They are counted.
    fn note<'a>(&self, found: &'a Found, now: Instant) -> Vec<&'a str> {
        let mut state = self.state();
        let State { since, counted } = &mut *state;
        since.retain(|violation, _| found.contains_key(violation));
        let mut news = Vec::new();
        for (violation, line) in found {
            let (begun, is_said) = since.entry(violation.clone()).or_insert((now, false));
            let has_lasted = violation.kind == Kind::Page || now - *begun >= PATIENCE;
            if has_lasted && !*is_said {
                *is_said = true;
                *counted.entry(violation.kind).or_default() += 1;
                news.push(line.as_str());
            }
        }
        news
    }

    /// A best-effort guest stays: to let it go would open its gates.
    fn revoke(&self, registry: &Registry, guest: &GuestView) {
        if guest.who.class == Class::RealTime {
            self.revoked.add(guest.who.pid);
            registry.revoke(guest.who.guest);
            tracing::warn!("class rt of process {} is revoked", guest.who.pid);
        }
    }
}
