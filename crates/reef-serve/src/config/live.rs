//! The configuration in use. A part of it may change while the daemon runs.

use super::settings::Config;
use crate::config::rights::RealTime;
use crate::error::Result;
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::Arc;
use toml::Value;

/// The configuration in use.
#[derive(Debug)]
pub(crate) struct LiveConfig(RwLock<Arc<Config>>);

impl LiveConfig {
    pub(crate) fn new(config: Config) -> Self {
        Self(RwLock::new(Arc::new(config)))
    }

    /// Returns the current configuration.
    pub(crate) fn get(&self) -> Arc<Config> {
        self.0.read().clone()
    }

    /// Takes over the settings that may change. `before` is the configuration that was read last,
    /// without passed sockets.
    ///
    /// Returns the keys that differ and take effect at a restart.
    ///
    /// # Errors
    ///
    /// `Invalid` if they contradict a setting that stays, such as an address beyond loopback that
    /// no token would guard any more. Then all settings stay.
    pub(crate) fn take_over(&self, before: &Config, fresh: &Config) -> Result<Vec<String>> {
        let mut config = Config::clone(&self.get());
        change(&mut config, fresh);
        let stays = |why: &str| format!("with the keys that take effect at a restart: {why}");
        config.check().map_err(|error| error.map_text(stays))?;
        *self.0.write() = Arc::new(config);
        let mut expected = before.clone();
        change(&mut expected, fresh);
        Ok(differing_keys(&expected, fresh))
    }
}

/// Copies every setting that is read when it is used.
fn change(config: &mut Config, fresh: &Config) {
    config.rights = fresh.rights.clone();
    config.rt = RealTime { reserve: config.rt.reserve, ..fresh.rt.clone() };
    config.listen.open_probes = fresh.listen.open_probes;
    config.models.class = fresh.models.class;
    config.models.on_demand = fresh.models.on_demand;
    config.guests.suspend = fresh.guests.suspend && config.guests.listen; // as it began
    config.guests.suspend_interval_ms = fresh.guests.suspend_interval_ms;
    config.memory.client_mib = fresh.memory.client_mib;
    config.limits.tensors = fresh.limits.tensors;
    config.limits.ring = fresh.limits.ring;
    config.times.request_ms = fresh.times.request_ms;
    config.times.drain_ms = fresh.times.drain_ms;
    config.times.shapes_ms = fresh.times.shapes_ms;
    config.times.spin_us = fresh.times.spin_us;
}

/// Returns the keys whose values differ.
fn differing_keys(a: &Config, b: &Config) -> Vec<String> {
    let mut keys = Vec::new();
    match (Value::try_from(a), Value::try_from(b)) {
        (Ok(a), Ok(b)) => compare("", Some(&a), Some(&b), &mut keys),
        _ => keys.extend((a != b).then(|| "a value that TOML cannot hold".into())),
    }
    keys
}

/// Adds the keys under `key` whose values differ, or that only one side has.
fn compare(key: &str, a: Option<&Value>, b: Option<&Value>, keys: &mut Vec<String>) {
    let (Some(Value::Table(one)), Some(Value::Table(other))) = (a, b) else {
        return keys.extend((a != b).then(|| key.to_owned()));
    };
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for name in names {
        let inner = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        compare(&inner, one.get(name), other.get(name), keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rights::{OverBudget, Right};
    use crate::config::users::Users;

    #[test]
    fn reload_changes_live_keys_and_returns_the_rest() {
        let before = Config::default();
        let mut started = before.clone();
        started.listen.http = Some(([127, 0, 0, 1], 8000).into()); // as if it was passed
        let live = LiveConfig::new(started.clone());
        let mut fresh = before.clone();
        fresh.rights.insert("user 7".into(), Right { rt: true, ..Right::default() });
        fresh.rt.over = OverBudget::Refused;
        fresh.limits.tensors = 3;
        assert!(live.take_over(&before, &fresh).unwrap().is_empty());
        let now = live.get();
        assert_eq!((&now.rights, now.limits.tensors), (&fresh.rights, 3));
        assert_eq!(now.rt.over, OverBudget::Refused);
        assert_eq!(now.listen, started.listen, "it still listens there");
        fresh.limits.queue = 7;
        fresh.memory.client_mib = 9;
        fresh.memory.total_mib = 9;
        fresh.listen.grpc = Some(([127, 0, 0, 1], 8001).into());
        fresh.listen.users = Users::All;
        fresh.tls.cert = Some("cert.pem".into());
        fresh.times.idle_ms += 1;
        fresh.guests.rt_programs.push("/bin/x".into());
        fresh.rt.reserve = 0.5;
        let want = [
            "guests.rt_programs",
            "limits.queue",
            "listen.grpc",
            "listen.users",
            "memory.total_mib",
            "rt.reserve",
            "times.idle_ms",
            "tls.cert",
        ];
        let fixed = live.take_over(&before, &fresh).unwrap();
        assert_eq!(fixed, want, "each key, and no section");
        let now = live.get();
        assert_eq!((now.memory.client_mib, now.memory.total_mib, now.limits.queue), (9, 4096, 64));
    }

    #[test]
    fn reload_that_lets_programs_register_takes_effect_at_a_restart() {
        let before = Config::default();
        let live = LiveConfig::new(before.clone());
        let mut fresh = before.clone();
        (fresh.guests.listen, fresh.guests.suspend) = (true, true);
        fresh.check().unwrap();
        assert_eq!(live.take_over(&before, &fresh).unwrap(), ["guests.listen", "guests.suspend"]);
        assert_eq!(*live.get(), before);
    }

    #[test]
    fn page_of_keys_names_those_that_a_reload_changes() {
        let page = include_str!("../../../../docs/reference/configuration.md");
        let source = include_str!("live.rs");
        let begin = source.find("fn change(").unwrap();
        let body = &source[begin..][..source[begin..].find("\n}").unwrap()];
        let keys: Vec<&str> = body
            .lines()
            .filter_map(|line| line.trim().strip_prefix("config.")?.split(' ').next())
            .collect();
        assert!(keys.contains(&"rights"), "{keys:?}");
        for key in keys {
            let section = key.split('.').next().unwrap();
            let names = [
                format!("`{key}`"),
                format!("\n- {section};"),
                format!("\n- all of `{section}` but"),
            ];
            assert!(names.iter().any(|name| page.contains(name)), "{key}");
        }
    }

    /// The address may be one that a service manager passed, which no configuration has.
    #[test]
    fn reload_without_the_last_token_of_an_open_address_is_refused() {
        let before = Config::default();
        let mut started = before.clone();
        started.listen.grpc = Some(([0, 0, 0, 0], 8001).into());
        started.listen.insecure = true;
        let right = Right { token_file: Some("ci.token".into()), ..Right::default() };
        started.rights.insert("token ci".into(), right);
        started.check().unwrap();
        let live = LiveConfig::new(started.clone());
        let said = live.take_over(&before, &before).unwrap_err().to_string();
        let want = "with the keys that take effect at a restart: listen.grpc: 0.0.0.0:8001 is not \
                    loopback: set listen.token_file or tls.client_ca";
        assert_eq!(said, want);
        assert_eq!(*live.get(), started, "its clients still need a token");
    }
}
