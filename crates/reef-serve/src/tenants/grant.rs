//! Rights of a principal, and its keys of shared memory.

use crate::config::rights::{OTHERS, OWNER, Right, Rights};
use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use crate::tensor::short;
use reef::{ClientConfig, Rate};

/// Rights of a principal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grant {
    /// May use the real-time class.
    pub(crate) rt: bool,
    /// Its best-effort programs may have real-time phases.
    pub(crate) phases: bool,
    /// Upper bound of the time that its best-effort programs have while real-time programs are
    /// busy, in percent.
    pub(crate) colocate: u8,
    /// Upper bound of their floor, in percent.
    pub(crate) floor: u8,
    /// Budget of its real-time work.
    pub(crate) rate: Option<Rate>,
    /// Weight of its best-effort work.
    pub(crate) weight: u32,
    /// May load, unload and trace.
    pub(crate) control: bool,
}

impl Grant {
    /// Returns the rights of `principal`, for a daemon of the user `own`.
    pub(crate) fn of(rights: &Rights, principal: &Principal, own: u32) -> Self {
        let is_owner = matches!(*principal, Principal::User(uid) if uid == own || uid == 0);
        let named = || rights.get(if is_owner { OWNER } else { OTHERS });
        let own_entry = || principal.keys().iter().find_map(|key| rights.get(key));
        match own_entry().or_else(named) {
            Some(right) => Self::from(right),
            None if is_owner => Self::from(&Right::of_owner()),
            None => Self::from(&Right::default()),
        }
    }

    /// Returns a best-effort client's configuration.
    pub(crate) fn client(&self) -> ClientConfig {
        ClientConfig::default().weight(self.weight).rate(self.rate)
    }

    /// Refuses control to a principal without that right.
    ///
    /// # Errors
    ///
    /// `Denied`.
    pub(crate) fn check_control(&self, principal: &Principal) -> Result<()> {
        if self.control {
            return Ok(());
        }
        Err(Error::Denied(format!(
            "{principal} may not load, unload or trace: rights.\"{}\".control",
            principal.keys()[0]
        )))
    }
}

impl From<&Right> for Grant {
    fn from(right: &Right) -> Self {
        Self {
            rt: right.rt,
            phases: right.rt || right.phases,
            colocate: right.colocate,
            floor: right.floor,
            rate: right.rate().ok().flatten(), // checked with the configuration
            weight: right.weight.unwrap_or(1),
            control: right.control,
        }
    }
}

/// Refuses a key with another tenant's prefix, or without the prefix of `principal`. A user on a
/// Unix socket has no prefix, but memory of its own.
///
/// # Errors
///
/// `Denied`, with the prefix if it is that of `principal`.
pub(crate) fn check_prefix(rights: &Rights, principal: &Principal, key: &str) -> Result<()> {
    if principal.is_local() {
        return Ok(());
    }
    let (plain, name) = (plain(key), &principal.keys()[0]);
    let mut entries = principal.keys().into_iter().filter_map(|key| rights.get(&key));
    let own = entries.find_map(|right| right.shared_memory_prefix.as_deref());
    let denied = |why: String| Err(Error::Denied(format!("shared memory {:?}: {why}", short(key))));
    if let Some(own) = own {
        if plain.starts_with(own) {
            return Ok(());
        }
        return denied(format!("must begin with {own:?}: shared_memory_prefix of {name}"));
    }
    let mut prefixes = rights.values().filter_map(|right| right.shared_memory_prefix.as_deref());
    if prefixes.any(|prefix| plain.starts_with(prefix)) {
        return denied("belongs to another tenant".into());
    }
    Ok(())
}

/// Returns a key without its leading slash, if it has one.
pub(crate) fn plain(key: &str) -> &str {
    key.strip_prefix('/').unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grant_follows_the_entry_of_a_principal() {
        let text =
            "[others]\nweight = 3\n[\"token ci\"]\nrt = true\nperiod_us = 10\nbudget_us = 2\n";
        let rights: Rights = toml::from_str(text).unwrap();
        let grant = |principal: Principal| Grant::of(&rights, &principal, 1000);
        let all = Grant {
            rt: true,
            phases: true,
            colocate: 100,
            floor: 100,
            rate: None,
            weight: 1,
            control: true,
        };
        assert_eq!([grant(Principal::User(1000)), grant(Principal::User(0))], [all; 2]);
        let other = Grant {
            rt: false,
            phases: false,
            colocate: 0,
            floor: 0,
            weight: 3,
            control: false,
            ..all
        };
        assert_eq!(grant(Principal::User(1001)), other);
        assert_eq!(grant(Principal::Certificate("ci".into())), other);
        let ci = grant(Principal::Token("ci".into()));
        assert_eq!(
            (ci.rt, ci.control, ci.rate.unwrap().to_string()),
            (true, false, "2µs in 10µs".into())
        );
        let strict: Rights = toml::from_str("[owner]\n").unwrap();
        assert!(
            !Grant::of(&strict, &Principal::User(1000), 1000).control,
            "its entry replaces the defaults"
        );
    }
}
