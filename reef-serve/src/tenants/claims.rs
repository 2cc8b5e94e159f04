//! Claims: rates that clients state for themselves, and whether they fit.
//!
//! A claim is one connection's. It holds its part of the device from the request that states it
//! until the connection has ended and what was used of it has come back, at most 10 s, so that who
//! connects anew doesn't begin with a whole budget. Claims of a principal to whom the configuration
//! grants a budget lie within that budget; those of all others share what is left:
//!
//! ```text
//! budgets of [rights] + claims of principals without one ≤ 1 − rt.reserve,  claims ≤ rt.claimable
//! ```

use crate::config::rights::Rights;
use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::net::identity::peer::{Connected, Life};
use crate::tenants::tenant::{Tenant, WHOLE};
use parking_lot::Mutex;
use reef::{Account, Rate, Usage};
use std::sync::Arc;
use std::time::Duration;

/// Claims that are remembered, also of connections that have just ended.
const MAX_CLAIMS: usize = 1024;

/// How long a claim outlives its connection at most, if its period is not longer: who was late for
/// an hour on a device that had room owes an hour, and others may want to claim.
const MAX_DEBT: Duration = Duration::from_secs(10);

/// The rate that a client states in microseconds; `None` if both are 0.
///
/// # Errors
///
/// `Invalid` if there is half of one, or the budget doesn't fit the period.
pub(crate) fn stated(period_us: u64, budget_us: u64) -> Result<Option<Rate>> {
    if (period_us, budget_us) == (0, 0) {
        return Ok(None);
    }
    let micros = Duration::from_micros;
    Ok(Some(Rate::new(micros(period_us), micros(budget_us))?))
}

/// A rate as a part of the device, rounded up.
fn part(rate: Rate) -> u64 {
    let part = (rate.budget().as_nanos() * u128::from(WHOLE)).div_ceil(rate.period().as_nanos());
    u64::try_from(part).unwrap_or(WHOLE)
}

/// What of the device may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    /// By all principals without a budget of their own.
    all: u64,
    /// By each of them that is not the daemon's own user or root: they leave some to others.
    each: u64,
}

impl Room {
    fn of(config: &Config) -> Self {
        let whole = |share: f64| (share * WHOLE as f64) as u64;
        let left = whole(1.0 - config.rt.reserve).saturating_sub(granted(&config.rights));
        let all = left.min(whole(config.rt.claimable));
        Self { all, each: config.limits.part(all) }
    }
}

/// The sum of the budgets that the configuration grants.
fn granted(rights: &Rights) -> u64 {
    rights.values().filter_map(|right| right.rate().ok().flatten()).map(part).sum()
}

/// One connection's claim.
#[derive(Debug)]
struct Claim {
    tenant: Arc<Tenant>,
    rate: Rate,
    /// Its own. `None`: it lies within its tenant's budget and is charged to that.
    account: Option<Account>,
    life: Life,
    /// When its connection was found to have ended.
    ended: Option<Duration>,
    /// What of the account the tenant has been told.
    booked: Usage,
}

impl Claim {
    /// Notes whether its connection has ended. False once that is so and nothing used is left to
    /// come back.
    fn stays(&mut self, now: Duration) -> bool {
        if self.life.is_open() {
            return true;
        }
        let ended = *self.ended.get_or_insert(now);
        let (Some(account), period) = (&self.account, self.rate.period()) else { return false };
        let owes = now < ended + MAX_DEBT && !account.is_in_budget(now);
        now < ended + period || owes
    }

    /// Tells the tenant what the account has had since the last time.
    fn book(&mut self) {
        let Some(account) = &self.account else { return };
        let usage = account.usage();
        self.tenant.book(
            usage.served.saturating_sub(self.booked.served),
            usage.late.saturating_sub(self.booked.late),
        );
        self.booked = usage;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.book();
        self.tenant.note_claim(part(self.rate), false);
    }
}

/// The claims of all clients.
#[derive(Debug)]
pub(super) struct Claims(Mutex<(Room, Vec<Claim>)>);

impl Claims {
    pub(super) fn new(config: &Config) -> Self {
        Self(Mutex::new((Room::of(config), Vec::new())))
    }

    /// For claims to come; those that are held stay.
    pub(super) fn set_room(&self, config: &Config) {
        self.0.lock().0 = Room::of(config);
    }

    /// Admits the claim of a connection, or finds it again; `now` on the device's clock. Returns
    /// what its requests are charged to, if that is not the tenant's account.
    ///
    /// # Errors
    ///
    /// `Exhausted` if it doesn't fit, or there are too many.
    pub(super) fn admit(
        &self,
        tenant: &Arc<Tenant>,
        life: &Life,
        rate: Rate,
        now: Duration,
    ) -> Result<Option<Account>> {
        let (room, claims) = &mut *self.0.lock();
        claims.retain_mut(|claim| claim.stays(now));
        let own = |claim: &&mut Claim| claim.tenant.who == tenant.who;
        if let Some(held) = claims.iter_mut().filter(own).find(|claim| claim.life == *life) {
            if held.rate == rate {
                return Ok(held.account.clone());
            }
            held.life = Connected::new().0; // it states another one from now on
        }
        let ended = |claim: &&mut Claim| claim.rate == rate && !claim.life.is_open();
        if let Some(again) = claims.iter_mut().filter(own).find(ended) {
            (again.life, again.ended) = (life.clone(), None);
            return Ok(again.account.clone());
        }
        check_room(*room, claims, tenant, rate)?;
        let account = tenant.grant().rate.is_none().then(|| Account::new(Some(rate)));
        let (tenant, life, booked) = (tenant.clone(), life.clone(), Usage::default());
        tenant.note_claim(part(rate), true);
        claims.push(Claim { tenant, rate, account: account.clone(), life, ended: None, booked });
        Ok(account)
    }

    /// Brings what the tenants have been told up to date, and forgets what has ended; `now` as
    /// above.
    pub(super) fn book(&self, now: Duration) {
        let (_, claims) = &mut *self.0.lock();
        claims.retain_mut(|claim| claim.stays(now));
        claims.iter_mut().for_each(Claim::book);
    }
}

/// Whether one more claim fits.
fn check_room(room: Room, claims: &[Claim], tenant: &Tenant, rate: Rate) -> Result<()> {
    if claims.len() >= MAX_CLAIMS {
        return Err(Error::Exhausted(format!("{MAX_CLAIMS} clients have stated a budget already")));
    }
    let taken = |of: &dyn Fn(&&Claim) -> bool| {
        claims.iter().filter(of).map(|claim| part(claim.rate)).sum::<u64>()
    };
    let mine = taken(&|claim: &&Claim| claim.tenant.who == tenant.who);
    let shared = taken(&|claim: &&Claim| claim.account.is_some());
    let (who, rights) = (&tenant.who, tenant.grant().rate);
    let limits = match rights {
        Some(rate) => [(mine, part(rate), format!("{who} has of its budget to"))].to_vec(),
        None if who.is_owner() => [(shared, room.all, "all clients may".into())].to_vec(),
        None => vec![
            (mine, room.each, format!("{who} may")),
            (shared, room.all, "all clients may".into()),
        ],
    };
    for (taken, most, of) in limits {
        let left = most.saturating_sub(taken);
        if part(rate) > left {
            let percent = |part: u64| 100.0 * part as f64 / WHOLE as f64;
            return Err(Error::Exhausted(format!(
                "a budget of {rate} is {:.1} % of the device; of the {:.1} % that {of} claim, {:.1} % are left",
                percent(part(rate)),
                percent(most),
                percent(left)
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
