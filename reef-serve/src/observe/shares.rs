//! Who takes what of the device, for Prometheus: under the names of [`reef::ClientConfig`] and [`reef::Rate`].

use crate::class::Class;
use crate::tenants::tenant::Tenant;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

type Seconds = Counter<f64, AtomicU64>;
type Number = Gauge<f64, AtomicU64>;

/// Of which principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClientLabels {
    client: String,
}

/// And in which class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShareLabels {
    client: String,
    class: &'static str,
}

/// And what became of what was over its budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OverLabels {
    client: String,
    outcome: &'static str,
}

/// Read from the tenants when the metrics are scraped.
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
}

impl Shares {
    pub(crate) fn register(&self, reef: &mut Registry) {
        let Self { device, held, memory, over, period, budget, weight, claimed, unfit, reserve } =
            self;
        let help = "Device time of a client's requests";
        reef.register_with_unit("client_device", help, Unit::Seconds, device.clone());
        let help = "Time in which a client's requests were on the device and did not run";
        reef.register_with_unit("client_held", help, Unit::Seconds, held.clone());
        let help = "Device and shared memory of a client's connections by the local path";
        reef.register("client_memory_bytes", help, memory.clone());
        let help =
            "Real-time requests that were over their client's budget, by what became of them";
        reef.register("client_over", help, over.clone());
        let help = "After how long a real-time client's budget comes again";
        reef.register_with_unit("client_period", help, Unit::Seconds, period.clone());
        let help = "Device time in each period that is a real-time client's own";
        reef.register_with_unit("client_budget", help, Unit::Seconds, budget.clone());
        reef.register("client_weight", "Of a client's best-effort work", weight.clone());
        let help =
            "Part of the device that a client's connections have claimed by stating a budget";
        reef.register("client_claimed", help, claimed.clone());
        let help = "Budgets that a client's requests and connections stated and that didn't fit";
        reef.register("client_unfit", help, unfit.clone());
        let help = "Part of the device that real-time work leaves to best-effort work";
        reef.register("rt_reserve", help, reserve.clone());
    }

    /// What it is now. Clients that are forgotten go.
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
        tenants.into_iter().for_each(|tenant| self.set_one(tenant));
    }

    fn set_one(&self, tenant: &Tenant) {
        let client = tenant.who.to_string();
        for (times, family) in [(tenant.served(), &self.device), (tenant.held(), &self.held)] {
            for (class, time) in Class::EACH.into_iter().zip(times) {
                let of = ShareLabels { client: client.clone(), class: class.name() };
                family.get_or_create(&of).inc_by(time.as_secs_f64());
            }
        }
        for (outcome, count) in tenant.over() {
            let of = OverLabels { client: client.clone(), outcome };
            self.over.get_or_create(&of).inc_by(count);
        }
        let of = ClientLabels { client };
        self.memory.get_or_create(&of).set(i64::try_from(tenant.memory()).unwrap_or(i64::MAX));
        let (claimed, unfit) = tenant.claims();
        self.claimed.get_or_create(&of).set(claimed);
        self.unfit.get_or_create(&of).inc_by(unfit);
        let grant = tenant.grant();
        self.weight.get_or_create(&of).set(grant.weight.into());
        if let Some(rate) = grant.rate {
            self.period.get_or_create(&of).set(rate.period().as_secs_f64());
            self.budget.get_or_create(&of).set(rate.budget().as_secs_f64());
        }
    }
}
