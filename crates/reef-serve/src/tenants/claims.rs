//! Claims: rates that clients state for themselves, and their admission.
//!
//! A claim belongs to one connection. It reserves its part of the device from the request that
//! states it until the connection has ended and its used budget has been replenished, at most 10 s
//! later. So a client that reconnects does not begin with a whole budget. Claims of a principal
//! with a granted budget lie within that budget; all other claims share the rest:
//!
//! ```text
//! budgets of [rights] + claims of principals without one ≤ 1 − rt.reserve,  claims ≤ rt.claimable
//! ```

use crate::config::rights::Rights;
use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::net::identity::peer::{ConnectionGuard, Life};
use crate::tenants::tenant::{Tenant, WHOLE};
use parking_lot::Mutex;
use reef::{Account, Rate, Usage};
use reef_guest::slots::{SlotShares, Standing, Used};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of claims, including those of connections that have just ended, and of those of
/// one principal: a connection that states one rate after another has many.
const MAX_CLAIMS: usize = 1024;
const MAX_CLAIMS_OF_PRINCIPAL: usize = 512;

/// Maximum time that a claim outlives its connection, unless its period is longer. A claim that ran
/// late for an hour on an idle device would owe an hour, and would keep others from claiming.
const MAX_DEBT: Duration = Duration::from_secs(10);

/// Returns the rate that a client states in microseconds; `None` if both are 0.
///
/// # Errors
///
/// `Invalid` if period or budget is missing, or the budget does not fit the period.
pub(crate) fn stated_rate(period_us: u64, budget_us: u64) -> Result<Option<Rate>> {
    if (period_us, budget_us) == (0, 0) {
        return Ok(None);
    }
    let micros = Duration::from_micros;
    Ok(Some(Rate::new(micros(period_us), micros(budget_us))?))
}

/// Returns a rate as a part of the device, rounded up.
fn part(rate: Rate) -> u64 {
    let part = (rate.budget().as_nanos() * u128::from(WHOLE)).div_ceil(rate.period().as_nanos());
    u64::try_from(part).unwrap_or(WHOLE)
}

/// Parts of the device that may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClaimLimits {
    /// Of all principals without a budget of their own.
    all: u64,
    /// Of each of them except the daemon's own user and root, so that some is left to others.
    each: u64,
}

impl ClaimLimits {
    fn of(config: &Config) -> Self {
        let whole = |share: f64| (share * WHOLE as f64) as u64;
        let left = whole(1.0 - config.rt.reserve).saturating_sub(granted(&config.rights));
        let all = left.min(whole(config.rt.claimable));
        Self { all, each: config.limits.part(all) }
    }
}

/// Returns the sum of the budgets that the configuration grants.
fn granted(rights: &Rights) -> u64 {
    rights.values().filter_map(|right| right.rate().ok().flatten()).map(part).sum()
}

/// Claim of one connection.
#[derive(Debug)]
struct Claim {
    tenant: Arc<Tenant>,
    rate: Rate,
    /// Account of the claim. `None`: it lies within its tenant's budget and is charged to that.
    account: Option<Account>,
    life: Life,
    /// Time at which its connection was found closed.
    ended: Option<Duration>,
    /// Usage of the account that the tenant has recorded.
    reported: Usage,
}

impl Claim {
    /// Notes the end of its connection. Returns false once it has ended and its used budget has
    /// been replenished.
    fn is_active(&mut self, now: Duration) -> bool {
        if self.life.is_open() {
            return true;
        }
        let ended = *self.ended.get_or_insert(now);
        let (Some(account), period) = (&self.account, self.rate.period()) else { return false };
        let owes = now < ended + MAX_DEBT && !account.is_in_budget(now);
        now < ended + period || owes
    }

    /// Adds the account's usage since the last call to the tenant's.
    fn report(&mut self) {
        let Some(account) = &self.account else { return };
        let usage = account.usage();
        self.tenant.add_usage(
            usage.served.saturating_sub(self.reported.served),
            usage.late.saturating_sub(self.reported.late),
        );
        self.reported = usage;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.report();
        self.tenant.note_claim(part(self.rate), false);
    }
}

/// Claims of all clients.
#[derive(Debug)]
pub(super) struct Claims(Mutex<(ClaimLimits, Vec<Claim>)>);

impl Claims {
    pub(super) fn new(config: &Config) -> Self {
        Self(Mutex::new((ClaimLimits::of(config), Vec::new())))
    }

    /// Sets the limits for future claims; admitted ones stay.
    pub(super) fn set_limits(&self, config: &Config) {
        self.0.lock().0 = ClaimLimits::of(config);
    }

    /// Admits the claim of a connection, or finds it again; `now` is the time of the device's
    /// clock. Returns the account for its requests, if it is not the tenant's.
    ///
    /// # Errors
    ///
    /// `Exhausted` if it does not fit, or there are too many.
    pub(super) fn admit(
        &self,
        tenant: &Arc<Tenant>,
        life: &Life,
        rate: Rate,
        now: Duration,
    ) -> Result<Option<Account>> {
        let (limits, claims) = &mut *self.0.lock();
        claims.retain_mut(|claim| claim.is_active(now));
        let own = |claim: &&mut Claim| claim.tenant.principal == tenant.principal;
        if let Some(held) = claims.iter_mut().filter(own).find(|claim| claim.life == *life) {
            if held.rate == rate {
                return Ok(held.account.clone());
            }
            held.life = ConnectionGuard::new().0; // it states another one from now on
        }
        let ended = |claim: &&mut Claim| claim.rate == rate && !claim.life.is_open();
        if let Some(again) = claims.iter_mut().filter(own).find(ended) {
            (again.life, again.ended) = (life.clone(), None);
            return Ok(again.account.clone());
        }
        check_limits(*limits, claims, tenant, rate)?;
        let account = tenant.grant().rate.is_none().then(|| Account::new(Some(rate)));
        let (tenant, life, reported) = (tenant.clone(), life.clone(), Usage::default());
        tenant.note_claim(part(rate), true);
        claims.push(Claim { tenant, rate, account: account.clone(), life, ended: None, reported });
        Ok(account)
    }

    /// Updates the tenants' usage, and forgets ended claims; `now` is the time of the device's
    /// clock.
    pub(super) fn report(&self, now: Duration) {
        let (_, claims) = &mut *self.0.lock();
        claims.retain_mut(|claim| claim.is_active(now));
        claims.iter_mut().for_each(Claim::report);
    }
}

/// Refuses a claim that does not fit.
fn check_limits(room: ClaimLimits, claims: &[Claim], tenant: &Tenant, rate: Rate) -> Result<()> {
    let parts = SlotShares::with_owner(MAX_CLAIMS, MAX_CLAIMS_OF_PRINCIPAL);
    if let Some(full) = parts.full(tenant.principal.standing(), used_by(claims, tenant)) {
        let text = full.text("clients with a stated budget", &tenant.principal);
        return Err(Error::Exhausted(text));
    }
    let taken = |of: &dyn Fn(&&Claim) -> bool| {
        claims.iter().filter(of).map(|claim| part(claim.rate)).sum::<u64>()
    };
    let mine = taken(&|claim: &&Claim| claim.tenant.principal == tenant.principal);
    let shared = taken(&|claim: &&Claim| claim.account.is_some());
    let (principal, rights) = (&tenant.principal, tenant.grant().rate);
    let limits = match rights {
        Some(rate) => [(mine, part(rate), format!("the budget of {principal} may"))].to_vec(),
        None if principal.is_owner() => [(shared, room.all, "all clients may".into())].to_vec(),
        None => vec![
            (mine, room.each, format!("{principal} may")),
            (shared, room.all, "all clients may".into()),
        ],
    };
    for (taken, max, of) in limits {
        let left = max.saturating_sub(taken);
        if part(rate) > left {
            let percent = |part: u64| 100.0 * part as f64 / WHOLE as f64;
            return Err(Error::Exhausted(format!(
                "a budget of {rate} is {:.1} % of the device and must be at most the {:.1} % left of the {:.1} % that {of} claim",
                percent(part(rate)),
                percent(left),
                percent(max)
            )));
        }
    }
    Ok(())
}

/// Counts the claims of a tenant, and those of all.
fn used_by(claims: &[Claim], tenant: &Tenant) -> Used {
    let mut used = Used::default();
    for principal in claims.iter().map(|claim| &claim.tenant.principal) {
        used.all += 1;
        used.own += usize::from(*principal == tenant.principal);
        used.anonymous += usize::from(principal.standing() == Standing::Anonymous);
        used.others += usize::from(principal.standing() < Standing::Owner);
    }
    used
}

#[cfg(test)]
mod tests;
