//! Use of the device by principal, for Prometheus, under the names of [`reef::ClientConfig`] and
//! [`reef::Rate`].

use crate::class::Class;
use crate::net::identity::principal::Principal;
use crate::tenants::tenant::Tenant;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Maximum number of addresses, and of other principals, with series of their own. Further ones
/// count as [`OTHER`].
const MAX_ADDRESSES: usize = 16;
const MAX_OTHERS: usize = 256;

/// Outcomes of requests above a budget, in a tenant's order.
const OUTCOMES: [&str; 3] = ["late", "best-effort", "refused"];

/// Name of all clients without series of their own.
const OTHER: &str = "other";

type Seconds = Counter<f64, AtomicU64>;
type Number = Gauge<f64, AtomicU64>;

/// Label: principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClientLabels {
    client: String,
}

/// Labels: principal and class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShareLabels {
    client: String,
    class: &'static str,
}

/// Labels: principal and outcome above its budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OverLabels {
    client: String,
    outcome: &'static str,
}

/// Metrics of tenants, updated when the metrics are scraped.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    device: Family<ShareLabels, Seconds>,
    held: Family<ShareLabels, Seconds>,
    memory: Family<ClientLabels, Gauge>,
    over: Family<OverLabels, Counter>,
    period: Family<ClientLabels, Number>,
    budget: Family<ClientLabels, Number>,
    weight: Family<ClientLabels, Gauge>,
    claimed: Family<ClientLabels, Number>,
    unfit: Family<ClientLabels, Counter>,
    reserve: Number,
    named: Mutex<ClientSeries>,
}

/// Figures of a client. All except `memory` and `claimed` only grow.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    served: [Duration; 2],
    held: [Duration; 2],
    over: [u64; 3],
    unfit: u64,
    memory: u64,
    claimed: f64,
}

impl Figures {
    fn of(tenant: &Tenant) -> Self {
        let (served, held, memory) = (tenant.served(), tenant.held(), tenant.memory());
        let (over, (claimed, unfit)) = (tenant.over().map(|(_, count)| count), tenant.claims());
        Self { served, held, over, unfit, memory, claimed }
    }

    /// Adds the growth from `before` to `now`, and the current values of gauges.
    fn add(&mut self, now: &Self, before: &Self) {
        for class in 0..2 {
            self.served[class] += now.served[class].saturating_sub(before.served[class]);
            self.held[class] += now.held[class].saturating_sub(before.held[class]);
        }
        for outcome in 0..3 {
            self.over[outcome] += now.over[outcome].saturating_sub(before.over[outcome]);
        }
        self.unfit += now.unfit.saturating_sub(before.unfit);
        self.memory += now.memory;
        self.claimed += now.claimed;
    }
}

/// Clients with series of their own, and the sums of all others.
#[derive(Debug, Default)]
struct ClientSeries {
    lines: BTreeSet<Principal>,
    /// Figures of each other client at the last scrape, for as long as it is known.
    others: BTreeMap<Principal, Figures>,
    /// Sums that never shrink, even though others are forgotten.
    sums: Figures,
}

impl ClientSeries {
    /// Forgets unknown principals.
    fn retain(&mut self, known: &BTreeSet<&Principal>) {
        self.lines.retain(|principal| known.contains(principal));
        self.others.retain(|principal, _| known.contains(principal));
        (self.sums.memory, self.sums.claimed) = (0, 0.0);
    }

    /// True if it has series of its own: the first ones do, for as long as they are known.
    fn has_series(&mut self, principal: &Principal) -> bool {
        let is_address = Principal::is_anonymous;
        if self.lines.contains(principal) || self.others.contains_key(principal) {
            return self.lines.contains(principal);
        }
        let max = if is_address(principal) { MAX_ADDRESSES } else { MAX_OTHERS };
        let kind = is_address(principal);
        let has_room = self.lines.iter().filter(|other| is_address(other) == kind).count() < max;
        has_room && self.lines.insert(principal.clone())
    }

    /// Adds one of the others to the sums.
    fn add(&mut self, principal: &Principal, now: Figures) {
        let before = self.others.insert(principal.clone(), now).unwrap_or_default();
        self.sums.add(&now, &before);
    }
}

impl Shares {
    pub(crate) fn register(&self, reef: &mut Registry) {
        let help = "Device time of a client's requests";
        reef.register_with_unit("client_device", help, Unit::Seconds, self.device.clone());
        let help = "Time in which a client's requests were on the device and did not run";
        reef.register_with_unit("client_held", help, Unit::Seconds, self.held.clone());
        let help = "Device and shared memory of a client's connections by the local path";
        reef.register("client_memory_bytes", help, self.memory.clone());
        let help =
            "Real-time requests that were over their client's budget, by what became of them";
        reef.register("client_over", help, self.over.clone());
        let help = "After how long a real-time client's budget comes again";
        reef.register_with_unit("client_period", help, Unit::Seconds, self.period.clone());
        let help = "Device time in each period that is a real-time client's own";
        reef.register_with_unit("client_budget", help, Unit::Seconds, self.budget.clone());
        reef.register("client_weight", "Of a client's best-effort work", self.weight.clone());
        let help =
            "Part of the device that a client's connections have claimed by stating a budget";
        reef.register("client_claimed", help, self.claimed.clone());
        let help = "Budgets that a client's requests and connections stated and that didn't fit";
        reef.register("client_unfit", help, self.unfit.clone());
        let help = "Part of the device that real-time work leaves to best-effort work";
        reef.register("rt_reserve", help, self.reserve.clone());
    }

    /// Sets all values. Series of forgotten clients disappear.
    pub(crate) fn set<'a>(&self, tenants: impl IntoIterator<Item = &'a Tenant>, reserve: f64) {
        self.device.clear();
        self.held.clear();
        self.memory.clear();
        self.over.clear();
        self.period.clear();
        self.budget.clear();
        self.weight.clear();
        self.claimed.clear();
        self.unfit.clear();
        self.reserve.set(reserve);
        let tenants: Vec<_> = tenants.into_iter().collect();
        let mut named = self.named.lock();
        named.retain(&tenants.iter().map(|tenant| &tenant.principal).collect());
        for tenant in tenants {
            let figures = Figures::of(tenant);
            if named.has_series(&tenant.principal) {
                self.set_one(&tenant.principal.to_string(), &figures);
                self.set_grant(tenant);
            } else {
                named.add(&tenant.principal, figures);
            }
        }
        if !named.others.is_empty() {
            self.set_one(OTHER, &named.sums);
        }
    }

    fn set_one(&self, client: &str, figures: &Figures) {
        for (times, family) in [(figures.served, &self.device), (figures.held, &self.held)] {
            for (class, time) in Class::ALL.into_iter().zip(times) {
                let of = ShareLabels { client: client.into(), class: class.name() };
                family.get_or_create(&of).inc_by(time.as_secs_f64());
            }
        }
        for (outcome, count) in OUTCOMES.into_iter().zip(figures.over) {
            let of = OverLabels { client: client.into(), outcome };
            self.over.get_or_create(&of).inc_by(count);
        }
        let of = ClientLabels { client: client.into() };
        self.memory.get_or_create(&of).set(i64::try_from(figures.memory).unwrap_or(i64::MAX));
        self.claimed.get_or_create(&of).set(figures.claimed);
        self.unfit.get_or_create(&of).inc_by(figures.unfit);
    }

    fn set_grant(&self, tenant: &Tenant) {
        let (of, grant) = (ClientLabels { client: tenant.principal.to_string() }, tenant.grant());
        self.weight.get_or_create(&of).set(grant.weight.into());
        if let Some(rate) = grant.rate {
            self.period.get_or_create(&of).set(rate.period().as_secs_f64());
            self.budget.get_or_create(&of).set(rate.budget().as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::config::rights::{OverBudget, Right};
    use crate::tenants::grant::Grant;
    use std::net::{IpAddr, Ipv4Addr};

    fn tenant(principal: Principal) -> Tenant {
        Tenant::new(principal, Grant::from(&Right::default()), OverBudget::Late, 1)
    }

    fn address(number: u32) -> Principal {
        Principal::Address(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    /// Returns the number of clients' lines, and the best-effort seconds of all others.
    fn read(shares: &Shares, tenants: &[Tenant]) -> (usize, f64) {
        let mut registry = Registry::default();
        shares.register(&mut registry);
        shares.set(tenants, 0.05);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let of_other = "client_device_seconds_total{client=\"other\",class=\"be\"} ";
        let seconds = text.lines().find_map(|line| line.strip_prefix(of_other));
        let lines = text.lines().filter(|line| line.contains("client=")).count();
        (lines, seconds.map_or(0.0, |seconds| seconds.parse().unwrap()))
    }

    #[test]
    fn clients_above_the_maximum_share_series_that_never_shrink() {
        let shares = Shares::default();
        let run = |tenants: &[Tenant]| {
            let second = Duration::from_secs(1);
            tenants.iter().for_each(|tenant| tenant.charge(Class::BestEffort, second, second));
        };
        let few: Vec<_> = (0..MAX_ADDRESSES as u32).map(address).map(tenant).collect();
        let (full, none) = read(&shares, &few);
        assert_eq!(none, 0.0);
        let mut tenants = few;
        tenants.extend((100..1300).map(address).map(tenant));
        run(&tenants);
        let (lines, seconds) = read(&shares, &tenants);
        assert!(lines > full && lines < full + 12, "{full} lines became {lines}");
        assert_eq!(seconds, 1200.0);
        assert_eq!(read(&shares, &tenants).1, 1200.0, "each second counts once");
        tenants.truncate(MAX_ADDRESSES + 10); // others are forgotten
        run(&tenants);
        assert_eq!(read(&shares, &tenants), (lines, 1210.0));
        tenants.push(tenant(Principal::Token("ci".into())));
        assert!(read(&shares, &tenants).0 > lines, "it has series of its own");
    }
}
