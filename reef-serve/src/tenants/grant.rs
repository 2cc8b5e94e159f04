//! What a principal may do, as the configuration says it, and which keys of shared memory are its.

use crate::config::rights::{OTHERS, OWNER, Right, Rights};
use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use crate::tensor::short;
use reef::{ClientConfig, Rate};

/// What a principal may do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grant {
    /// May ask for real time.
    pub(crate) rt: bool,
    /// What of the device its real-time work has to itself.
    pub(crate) rate: Option<Rate>,
    /// Of its best-effort work.
    pub(crate) weight: u32,
    /// May load, unload and trace.
    pub(crate) control: bool,
}

impl Grant {
    /// What `rights` give to `who`, for a daemon of the user `own`.
    pub(crate) fn of(rights: &Rights, who: &Principal, own: u32) -> Self {
        let owner = matches!(*who, Principal::User(uid) if uid == own || uid == 0);
        let named = || rights.get(if owner { OWNER } else { OTHERS });
        match rights.get(&who.to_string()).or_else(named) {
            Some(right) => Self::from(right),
            None if owner => Self::from(&Right::of_owner()),
            None => Self::from(&Right::default()),
        }
    }

    /// As a best-effort client's configuration.
    pub(crate) fn client(&self) -> ClientConfig {
        ClientConfig::default().weight(self.weight).rate(self.rate)
    }

    /// Refuses control to who may not.
    ///
    /// # Errors
    ///
    /// `Denied`.
    pub(crate) fn check_control(&self, who: &Principal) -> Result<()> {
        match self.control {
            true => Ok(()),
            false => Err(Error::Denied(format!(
                "{who} may not load, unload or trace: rights.\"{who}\".control"
            ))),
        }
    }
}

impl From<&Right> for Grant {
    fn from(right: &Right) -> Self {
        Self {
            rt: right.rt,
            rate: right.rate().ok().flatten(), // checked with the configuration
            weight: right.weight.unwrap_or(1),
            control: right.control,
        }
    }
}

/// Refuses a key that begins as another tenant's do, or not as those of `who` do. A user on a Unix
/// socket has no keys, but memory of its own.
///
/// # Errors
///
/// `Denied` with the prefix, if it is that of `who`.
pub(crate) fn check_prefix(rights: &Rights, who: &Principal, key: &str) -> Result<()> {
    if who.is_local() {
        return Ok(());
    }
    let (plain, name) = (plain(key), who.to_string());
    let own = rights.get(&name).and_then(|right| right.shared_memory_prefix.as_deref());
    let denied = |why: String| Err(Error::Denied(format!("shared memory {:?}: {why}", short(key))));
    if let Some(own) = own {
        return match plain.starts_with(own) {
            true => Ok(()),
            false => denied(format!("must begin with {own:?}: shared_memory_prefix of {name}")),
        };
    }
    let mut prefixes = rights.values().filter_map(|right| right.shared_memory_prefix.as_deref());
    match prefixes.any(|prefix| plain.starts_with(prefix)) {
        true => denied("belongs to another tenant".into()),
        false => Ok(()),
    }
}

/// A key without the slash that it may begin with.
pub(crate) fn plain(key: &str) -> &str {
    key.strip_prefix('/').unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_may_all_and_others_what_is_written() {
        let text =
            "[others]\nweight = 3\n[\"token ci\"]\nrt = true\nperiod_us = 10\nbudget_us = 2\n";
        let rights: Rights = toml::from_str(text).unwrap();
        let of = |who: Principal| Grant::of(&rights, &who, 1000);
        let all = Grant { rt: true, rate: None, weight: 1, control: true };
        assert_eq!([of(Principal::User(1000)), of(Principal::User(0))], [all; 2]);
        let other = Grant { rt: false, rate: None, weight: 3, control: false };
        assert_eq!(of(Principal::User(1001)), other);
        assert_eq!(of(Principal::Certificate("ci".into())), other);
        let ci = of(Principal::Token("ci".into()));
        assert_eq!(
            (ci.rt, ci.control, ci.rate.unwrap().to_string()),
            (true, false, "2µs in 10µs".into())
        );
        let strict: Rights = toml::from_str("[owner]\n").unwrap();
        assert!(!Grant::of(&strict, &Principal::User(1000), 1000).control, "its entry says all");
    }
}
