//! Who may do what: real time, control, shares of the device.

use crate::error::{Error, Result};
use reef::Rate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Key of the rights of the daemon's own user and of root, over Unix sockets.
pub(crate) const OWNER: &str = "owner";

/// Key of the rights of all who have no entry of their own.
pub(crate) const OTHERS: &str = "others";

/// Rights by whom they are given to: `owner`, `others`, `user 1000`, `token NAME`,
/// `certificate NAME`, `address 10.0.0.1`.
pub type Rights = BTreeMap<String, Right>;

/// What one may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Right {
    /// May ask for real time.
    pub rt: bool,
    /// Its real-time requests have `budget_us` of device time in each `period_us` to themselves,
    /// before all whose budget is used up. Without: they share what is left. In microseconds.
    pub period_us: Option<u64>,
    /// See `period_us`.
    pub budget_us: Option<u64>,
    /// Its share of best-effort device time under the scheduler `fair-share`; default 1.
    pub weight: Option<u32>,
    /// May load and unload models, and trace.
    pub control: bool,
    /// Of a token: the file whose first line is the token.
    pub token_file: Option<PathBuf>,
    /// Of a token, certificate or address: how its keys of shared memory begin. It registers no
    /// others, and nobody else over TCP registers these.
    pub shared_memory_prefix: Option<String>,
}

impl Right {
    /// What is the owner's if the configuration doesn't say it.
    pub(crate) fn of_owner() -> Self {
        Self { rt: true, control: true, ..Self::default() }
    }

    /// The budget of its real-time requests.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is half of one, or it doesn't fit its period.
    pub(crate) fn rate(&self) -> Result<Option<Rate>> {
        match (self.period_us, self.budget_us) {
            (None, None) => Ok(None),
            (Some(period), Some(budget)) if self.rt => {
                Ok(Some(Rate::new(Duration::from_micros(period), Duration::from_micros(budget))?))
            }
            (Some(_), Some(_)) => Err(Error::Invalid("a budget without rt = true".into())),
            _ => Err(Error::Invalid("period_us and budget_us belong together".into())),
        }
    }

    fn check(&self, who: &str) -> Result<Option<Rate>> {
        let words = who.split_once(' ').filter(|(_, name)| !name.is_empty());
        let known = match words {
            Some(("user", uid)) => uid.parse::<u32>().is_ok(),
            Some(("address", address)) => address.parse::<IpAddr>().is_ok(),
            Some(("token" | "certificate", _)) => true,
            _ => who == OWNER || who == OTHERS,
        };
        if !known {
            let have = "owner, others, user N, token NAME, certificate NAME, address IP";
            return Err(Error::Invalid(format!("no {who:?} (have: {have})")));
        }
        if self.token_file.is_some() && !who.starts_with("token ") {
            return Err(Error::Invalid("token_file belongs to \"token NAME\"".into()));
        }
        self.check_prefix(who)?;
        if self.weight == Some(0) {
            return Err(Error::Invalid("weight: 0, at least 1 is wanted".into()));
        }
        self.rate()
    }
}

impl Right {
    fn check_prefix(&self, who: &str) -> Result<()> {
        let Some(prefix) = &self.shared_memory_prefix else { return Ok(()) };
        if !["token ", "certificate ", "address "].iter().any(|kind| who.starts_with(kind)) {
            let text = "shared_memory_prefix belongs to a token, a certificate or an address";
            return Err(Error::Invalid(text.into()));
        }
        if prefix.is_empty() || prefix.contains(['/', '\0']) {
            let text =
                format!("shared_memory_prefix: must be the beginning of a name, got {prefix:?}");
            return Err(Error::Invalid(text));
        }
        Ok(())
    }
}

/// Refuses prefixes of two principals that may be those of one key.
fn check_prefixes(rights: &Rights) -> Result<()> {
    let all = rights.iter().filter_map(|(who, right)| {
        right.shared_memory_prefix.as_deref().map(|prefix| (prefix, who))
    });
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[1].0.starts_with(pair[0].0)) {
        Some([(prefix, who), (longer, other)]) => Err(Error::Invalid(format!(
            "rights.{other:?}: shared_memory_prefix: {longer:?} must not begin with {prefix:?}, \
             the prefix of {who:?}"
        ))),
        _ => Ok(()),
    }
}

/// What becomes of a real-time request whose principal has used its budget up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// It starts behind all that are in their budget, and counts as late.
    Late,
    /// It is best-effort.
    BestEffort,
    /// It is refused at once.
    Refused,
}

/// How the device is shared between the classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RealTime {
    /// Part of the device that best-effort work keeps when it wants it, from 0 to less than 1;
    /// default 0.05.
    pub reserve: f64,
    /// What becomes of what is over a budget: `late` (the default), `best-effort` or `refused`.
    pub over: Over,
    /// Part of the device that clients may claim together by stating a period and a budget, from 0
    /// to 1; never more than `reserve` and the budgets of `[rights]` leave. Default 1.
    pub claimable: f64,
    /// What becomes of real-time requests whose stated budget doesn't fit in: `late`, `best-effort`
    /// or `refused` (the default).
    pub unfit: Over,
}

impl Default for RealTime {
    fn default() -> Self {
        Self { reserve: 0.05, over: Over::Late, claimable: 1.0, unfit: Over::Refused }
    }
}

/// Refuses rights of unknown principals, and more budgets than there is device.
///
/// # Errors
///
/// `Invalid` with the key.
pub(crate) fn check(rights: &Rights, rt: &RealTime) -> Result<()> {
    if !(0.0..1.0).contains(&rt.reserve) {
        let text = format!("rt.reserve: {}, possible are 0 to less than 1", rt.reserve);
        return Err(Error::Invalid(text));
    }
    if !(0.0..=1.0).contains(&rt.claimable) {
        let text = format!("rt.claimable: {}, possible are 0 to 1", rt.claimable);
        return Err(Error::Invalid(text));
    }
    check_prefixes(rights)?;
    let mut sum = 0.0;
    for (who, right) in rights {
        let rate = right.check(who).map_err(|e| e.map(|text| format!("rights.{who:?}: {text}")))?;
        sum += rate.map_or(0.0, |rate| rate.share());
    }
    if sum > 1.0 - rt.reserve + 1e-9 {
        return Err(Error::Invalid(format!(
            "rights: the budgets are {:.1} % of the device, rt.reserve leaves {:.1} %",
            100.0 * sum,
            100.0 * (1.0 - rt.reserve)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Both {
            rights: Rights,
            #[serde(default)]
            rt: RealTime,
        }
        let both: Both = toml::from_str(text).map_err(|e| e.to_string())?;
        check(&both.rights, &both.rt).map_err(|e| e.to_string())
    }

    #[test]
    fn budgets_are_summed_and_the_reserve_is_not_theirs() {
        let two = |each: u64| {
            format!(
                "[rights.\"token a\"]\nrt = true\nperiod_us = 1000\nbudget_us = {each}\n\
                 [rights.\"user 7\"]\nrt = true\nperiod_us = 2000\nbudget_us = {}\n[rt]\nreserve = 0.2\n",
                2 * each
            )
        };
        assert_eq!(said(&two(400)), Ok(()));
        let want = "rights: the budgets are 80.2 % of the device, rt.reserve leaves 80.0 %";
        assert_eq!(said(&two(401)), Err(want.into()));
    }

    #[test]
    fn what_is_wrong_is_named_with_whose_right_it_is() {
        for (text, want) in [
            ("[rights.nobody]", "rights.\"nobody\": no \"nobody\" (have: owner"),
            ("[rights.\"user x\"]", "rights.\"user x\": no"),
            ("[rights.\"token \"]", "rights.\"token \": no"),
            ("[rights.owner]\nbudget_us = 1", "rights.\"owner\": period_us and budget_us"),
            ("[rights.owner]\nbudget_us = 1\nperiod_us = 2", "rights.\"owner\": a budget without"),
            (
                "[rights.owner]\nrt = true\nbudget_us = 3\nperiod_us = 2",
                "rights.\"owner\": a budget of 3µs",
            ),
            ("[rights.owner]\nweight = 0", "rights.\"owner\": weight: 0"),
            ("[rights.owner]\ntoken_file = \"x\"", "rights.\"owner\": token_file belongs"),
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
            ("[rights]\n[rt]\nreserve = 1.0", "rt.reserve: 1, possible"),
            ("[rights]\n[rt]\nclaimable = 1.1", "rt.claimable: 1.1, possible are 0 to 1"),
        ] {
            let said = said(text).unwrap_err();
            assert!(said.starts_with(want), "{text}: {said}");
        }
        assert!(said("[rights.\"certificate a.b c\"]\nrt = true").is_ok());
        assert!(said("[rights.owner]\nreal_time = true").unwrap_err().contains("real_time"));
    }
}
