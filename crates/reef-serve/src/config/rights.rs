//! Rights of principals: real time, control, shares of the device.

use crate::error::{Error, Result};
use reef::{Rate, did_you_mean};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

/// Key of the rights of the daemon's own user and of root, over Unix sockets.
pub(crate) const OWNER: &str = "owner";

/// Key of the rights of all principals without an entry of their own.
pub(crate) const OTHERS: &str = "others";

/// Rights by principal: `owner`, `others`, `user 1000`, `token NAME`, `certificate NAME`, `address
/// 10.0.0.1`.
pub type Rights = BTreeMap<String, Right>;

/// Rights of one principal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Right {
    /// May use the real-time class.
    pub rt: bool,
    /// Its best-effort programs may have real-time phases, which they begin and end themselves.
    /// Implied by `rt`.
    pub phases: bool,
    /// The most that its best-effort programs may have while real-time programs are busy, in
    /// percent of the time (`reef exec --colocate`). `guests.colocate` is granted anyway.
    pub colocate: u8,
    /// The most that they may have as a floor (`reef exec --floor`). `guests.floor` is granted
    /// anyway.
    pub floor: u8,
    /// Guarantees its real-time requests `budget_us` of device time in each `period_us`, in
    /// microseconds. They precede requests without a budget or with a used-up one. Without it they
    /// share the remaining time.
    pub period_us: Option<u64>,
    /// See `period_us`.
    pub budget_us: Option<u64>,
    /// Weight of its best-effort work under the scheduler `fair-share`; default 1.
    pub weight: Option<u32>,
    /// May load and unload models, and trace.
    pub control: bool,
    /// File whose first line is the token; only for a token.
    pub token_file: Option<PathBuf>,
    /// Prefix of its keys of shared memory; only for a token, a certificate or an address. It
    /// registers no other keys, and no other TCP client registers these.
    pub shared_memory_prefix: Option<String>,
}

impl Right {
    /// Returns the owner's rights if the configuration has no entry for it.
    pub(crate) fn of_owner() -> Self {
        Self { rt: true, control: true, colocate: 100, floor: 100, ..Self::default() }
    }

    /// Returns the budget of its real-time requests.
    ///
    /// # Errors
    ///
    /// `Invalid` if period or budget is missing, or the budget does not fit its period.
    pub(crate) fn rate(&self) -> Result<Option<Rate>> {
        match (self.period_us, self.budget_us) {
            (None, None) => Ok(None),
            (Some(period), Some(budget)) if self.rt => {
                Ok(Some(Rate::new(Duration::from_micros(period), Duration::from_micros(budget))?))
            }
            (Some(_), Some(_)) => Err(Error::Invalid("a budget requires rt = true".into())),
            _ => Err(Error::Invalid("period_us and budget_us must be set together".into())),
        }
    }

    fn check(&self, principal: &str) -> Result<Option<Rate>> {
        let words = principal.split_once(' ').filter(|(_, name)| !name.is_empty());
        let Some(key) = key_of(principal, words) else {
            let have = "owner, others, user N, token NAME, certificate NAME, address IP";
            let name = words.map_or("NAME", |(_, name)| name);
            let kinds = ["user", "token", "certificate", "address"];
            let near = kinds.map(|kind| format!("{kind} {name}"));
            let near = near.iter().map(String::as_str).filter(|near| *near != principal);
            let meant = did_you_mean(principal, near.chain([OWNER, OTHERS]));
            return Err(Error::Invalid(format!(
                "unknown principal {principal:?} (have: {have}){meant}"
            )));
        };
        if key != principal {
            return Err(Error::Invalid(format!("must be written {key:?}")));
        }
        if self.token_file.is_some() && !principal.starts_with("token ") {
            return Err(Error::Invalid("token_file is only for \"token NAME\"".into()));
        }
        self.check_prefix(principal)?;
        for (key, value) in [("colocate", self.colocate), ("floor", self.floor)] {
            if value > 100 {
                return Err(Error::Invalid(format!("{key} must be 0 to 100, got {value}")));
            }
        }
        if self.weight == Some(0) {
            return Err(Error::Invalid("weight must be at least 1, got 0".into()));
        }
        self.rate()
    }
}

impl Right {
    fn check_prefix(&self, principal: &str) -> Result<()> {
        let Some(prefix) = &self.shared_memory_prefix else { return Ok(()) };
        if !["token ", "certificate ", "address "].iter().any(|kind| principal.starts_with(kind)) {
            let text = "shared_memory_prefix is only for a token, a certificate or an address";
            return Err(Error::Invalid(text.into()));
        }
        if prefix.is_empty() || prefix.contains(['/', '\0']) {
            let text =
                format!("shared_memory_prefix must be the beginning of a name, got {prefix:?}");
            return Err(Error::Invalid(text));
        }
        Ok(())
    }
}

/// Returns the address by which rights and quotas of a host are found. An IPv6 host counts as its
/// /64 network, unless it is this one.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into()
        }
        other => other,
    }
}

/// Returns the key by which a principal's rights are found, which is the only one that has an
/// effect; `None` if there is no such principal.
fn key_of(principal: &str, words: Option<(&str, &str)>) -> Option<String> {
    match words {
        Some(("user", uid)) => Some(format!("user {}", uid.parse::<u32>().ok()?)),
        Some(("address", address)) => {
            Some(format!("address {}", network(address.parse::<IpAddr>().ok()?)))
        }
        Some(("token" | "certificate", _)) => Some(principal.to_owned()),
        _ => [OWNER, OTHERS].contains(&principal).then(|| principal.to_owned()),
    }
}

/// Refuses prefixes of two principals that could match the same key.
fn check_prefixes(rights: &Rights) -> Result<()> {
    let all = rights.iter().filter_map(|(principal, right)| {
        right.shared_memory_prefix.as_deref().map(|prefix| (prefix, principal))
    });
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[1].0.starts_with(pair[0].0)) {
        Some([(prefix, principal), (longer, other)]) => Err(Error::Invalid(format!(
            "rights.{other:?}: shared_memory_prefix: {longer:?} must not begin with {prefix:?}, \
             the prefix of {principal:?}"
        ))),
        _ => Ok(()),
    }
}

/// Treatment of a real-time request whose principal has used up its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverBudget {
    /// Runs it after all requests within their budgets, and counts it as late.
    Late,
    /// Runs it as best-effort.
    BestEffort,
    /// Refuses it at once.
    Refused,
}

/// Sharing of the device between the classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RealTime {
    /// Part of the device that best-effort work may always use, from 0 to less than 1; default
    /// 0.05.
    pub reserve: f64,
    /// Treatment of requests above a budget: `late` (the default), `best-effort` or `refused`.
    pub over: OverBudget,
    /// Part of the device that clients may claim together by stating a period and a budget, from 0
    /// to 1. It is never more than `reserve` and the budgets of `[rights]` leave. Default 1.
    pub claimable: f64,
    /// Treatment of real-time requests whose stated budget cannot be admitted: `late`,
    /// `best-effort` or `refused` (the default).
    pub unfit: OverBudget,
}

impl Default for RealTime {
    fn default() -> Self {
        Self { reserve: 0.05, over: OverBudget::Late, claimable: 1.0, unfit: OverBudget::Refused }
    }
}

/// Refuses rights of unknown principals, and budgets that exceed the device.
///
/// # Errors
///
/// `Invalid` with the key.
pub(crate) fn check(rights: &Rights, rt: &RealTime) -> Result<()> {
    if !(0.0..1.0).contains(&rt.reserve) {
        let text = format!("rt.reserve must be at least 0 and less than 1, got {}", rt.reserve);
        return Err(Error::Invalid(text));
    }
    if !(0.0..=1.0).contains(&rt.claimable) {
        let text = format!("rt.claimable must be 0 to 1, got {}", rt.claimable);
        return Err(Error::Invalid(text));
    }
    check_prefixes(rights)?;
    let mut sum = 0.0;
    for (principal, right) in rights {
        let rate = right
            .check(principal)
            .map_err(|e| e.map_text(|text| format!("rights.{principal:?}: {text}")))?;
        sum += rate.map_or(0.0, |rate| rate.share());
    }
    if sum > 1.0 - rt.reserve + 1e-9 {
        return Err(Error::Invalid(format!(
            "rights: budgets must be at most the {:.1} % that rt.reserve leaves, got {:.1} %",
            100.0 * (1.0 - rt.reserve),
            100.0 * sum
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Sections {
            rights: Rights,
            #[serde(default)]
            rt: RealTime,
        }
        let sections: Sections = toml::from_str(text).map_err(|e| e.to_string())?;
        check(&sections.rights, &sections.rt).map_err(|e| e.to_string())
    }

    #[test]
    fn budgets_above_the_reserve_are_refused() {
        let two = |each: u64| {
            format!(
                "[rights.\"token a\"]\nrt = true\nperiod_us = 1000\nbudget_us = {each}\n\
                 [rights.\"user 7\"]\nrt = true\nperiod_us = 2000\nbudget_us = {}\n[rt]\nreserve = 0.2\n",
                2 * each
            )
        };
        assert_eq!(check_text(&two(400)), Ok(()));
        let want = "rights: budgets must be at most the 80.0 % that rt.reserve leaves, got 80.2 %";
        assert_eq!(check_text(&two(401)), Err(want.into()));
    }

    #[test]
    fn invalid_right_is_refused_by_principal() {
        for (text, want) in [
            ("[rights.other]", "rights.\"other\": unknown principal \"other\" (have: owner"),
            ("[rights.\"user x\"]", "rights.\"user x\": unknown"),
            ("[rights.\"token \"]", "rights.\"token \": unknown"),
            ("[rights.owner]\nbudget_us = 1", "rights.\"owner\": period_us and budget_us"),
            ("[rights.owner]\nbudget_us = 1\nperiod_us = 2", "rights.\"owner\": a budget requires"),
            (
                "[rights.owner]\nrt = true\nbudget_us = 3\nperiod_us = 2",
                "rights.\"owner\": rate: must have a budget",
            ),
            ("[rights.owner]\nweight = 0", "rights.\"owner\": weight must be"),
            (
                "[rights.owner]\ncolocate = 200",
                "rights.\"owner\": colocate must be 0 to 100, got 200",
            ),
            ("[rights.others]\nfloor = 101", "rights.\"others\": floor must be 0 to 100, got 101"),
            ("[rights.owner]\ntoken_file = \"x\"", "rights.\"owner\": token_file is only"),
            (
                "[rights.owner]\nshared_memory_prefix = \"x\"",
                "rights.\"owner\": shared_memory_prefix",
            ),
            (
                "[rights.\"token a\"]\nshared_memory_prefix = \"\"",
                "rights.\"token a\": shared_memory_",
            ),
            (
                "[rights.\"token a\"]\nshared_memory_prefix = \"a/\"",
                "rights.\"token a\": shared_memory_",
            ),
            (
                "[rights.\"token a\"]\nshared_memory_prefix = \"a\"\n\
                 [rights.\"token b\"]\nshared_memory_prefix = \"ab\"",
                "rights.\"token b\": shared_memory_prefix: \"ab\" must not begin with \"a\"",
            ),
            (
                "[rights]\n[rt]\nreserve = 1.0",
                "rt.reserve must be at least 0 and less than 1, got 1",
            ),
            ("[rights]\n[rt]\nclaimable = 1.1", "rt.claimable must be 0 to 1, got 1.1"),
        ] {
            let said = check_text(text).unwrap_err();
            assert!(said.starts_with(want), "{text}: {said}");
        }
        for (written, key) in [
            ("user 007", "user 7"),
            ("user +7", "user 7"),
            ("address ::ffff:10.0.0.1", "address 10.0.0.1"),
            ("address 0:0:0:0:0:0:0:1", "address ::1"),
            ("address 2001:db8::1", "address 2001:db8::"),
        ] {
            let said = check_text(&format!("[rights.\"{written}\"]")).unwrap_err();
            assert_eq!(said, format!("rights.\"{written}\": must be written \"{key}\""));
            assert_eq!(check_text(&format!("[rights.\"{key}\"]")), Ok(()));
        }
        let said = check_text("[rights.\"tokn x\"]").unwrap_err();
        assert!(said.ends_with("address IP): did you mean token x?"), "{said}");
        let said = check_text("[rights.\"user x\"]").unwrap_err();
        assert!(said.ends_with("address IP)"), "{said}");
        assert!(check_text("[rights.\"certificate a.b c\"]\nrt = true").is_ok());
        assert!(check_text("[rights.owner]\nreal_time = true").unwrap_err().contains("real_time"));
    }
}
