//! The configuration that counts now, of which some may change while the daemon runs.

use super::settings::Config;
use parking_lot::RwLock;
use std::sync::Arc;

/// The configuration that counts now.
#[derive(Debug)]
pub(crate) struct Live(RwLock<Arc<Config>>);

impl Live {
    pub(crate) fn new(config: Config) -> Self {
        Self(RwLock::new(Arc::new(config)))
    }

    /// As it is at this moment.
    pub(crate) fn get(&self) -> Arc<Config> {
        self.0.read().clone()
    }

    /// Takes over what may change. `before` is what was read last, without what the service manager passed.
    ///
    /// Returns the keys, or sections, that differ and take a restart.
    pub(crate) fn take_over(&self, before: &Config, fresh: &Config) -> Vec<&'static str> {
        let mut config = Config::clone(&self.get());
        change(&mut config, fresh);
        *self.0.write() = Arc::new(config);
        let mut reached = before.clone();
        change(&mut reached, fresh);
        differing(&reached, fresh)
    }
}

/// Everything that is looked up when it is needed.
fn change(config: &mut Config, fresh: &Config) {
    config.rights = fresh.rights.clone();
    config.rt.over = fresh.rt.over;
    config.listen.open_probes = fresh.listen.open_probes;
    config.models.class = fresh.models.class;
    config.models.on_demand = fresh.models.on_demand;
    config.memory.client_mib = fresh.memory.client_mib;
    config.limits.tensors = fresh.limits.tensors;
    config.limits.ring = fresh.limits.ring;
    config.times.request_ms = fresh.times.request_ms;
    config.times.drain_ms = fresh.times.drain_ms;
    config.times.spin_us = fresh.times.spin_us;
}

/// Names of what isn't the same.
fn differing(a: &Config, b: &Config) -> Vec<&'static str> {
    let pairs = [
        ("device", a.device != b.device),
        ("scheduler", a.scheduler != b.scheduler),
        ("rt.reserve", a.rt.reserve != b.rt.reserve),
        ("[listen]", a.listen != b.listen),
        ("[tls]", a.tls != b.tls),
        ("[models]", a.models != b.models),
        ("[memory]", a.memory != b.memory),
        ("limits.clients", a.limits.clients != b.limits.clients),
        (
            "limits.connects_per_second",
            a.limits.connects_per_second != b.limits.connects_per_second,
        ),
        ("limits.open_requests", a.limits.open_requests != b.limits.open_requests),
        ("limits.principal_percent", a.limits.principal_percent != b.limits.principal_percent),
        ("limits.queue", a.limits.queue != b.limits.queue),
        ("limits.message_mib", a.limits.message_mib != b.limits.message_mib),
        ("limits.models", a.limits.models != b.limits.models),
        ("limits.regions", a.limits.regions != b.limits.regions),
        ("[times]", a.times != b.times),
        ("[guests]", a.guests != b.guests),
    ];
    pairs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rights::{Over, Right};

    #[test]
    fn what_may_change_changes_and_the_rest_is_named() {
        let before = Config::default();
        let mut started = before.clone();
        started.listen.http = Some(([127, 0, 0, 1], 8000).into()); // as if it was passed
        let live = Live::new(started.clone());
        let mut fresh = before.clone();
        fresh.rights.insert("user 7".into(), Right { rt: true, ..Right::default() });
        fresh.rt.over = Over::Refused;
        fresh.limits.tensors = 3;
        assert!(live.take_over(&before, &fresh).is_empty());
        let now = live.get();
        assert_eq!((&now.rights, now.limits.tensors), (&fresh.rights, 3));
        assert_eq!(now.rt.over, Over::Refused);
        assert_eq!(now.listen, started.listen, "it still listens there");
        fresh.limits.queue = 7;
        fresh.memory.client_mib = 9;
        fresh.memory.total_mib = 9;
        assert_eq!(live.take_over(&before, &fresh), ["[memory]", "limits.queue"]);
        let now = live.get();
        assert_eq!((now.memory.client_mib, now.memory.total_mib, now.limits.queue), (9, 4096, 64));
    }
}
