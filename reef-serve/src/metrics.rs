//! Numbers for Prometheus.
//!
//! Requests count themselves as they end; what is a state and no event, such as the length of a queue,
//! is looked up when somebody asks.

use crate::Error;
use crate::job::Phases;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// Of which model and in which class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Of {
    pub(crate) model: String,
    pub(crate) version: u32,
    pub(crate) class: &'static str,
}

/// The same, and why a request was not served.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    model: String,
    version: u32,
    class: &'static str,
    reason: &'static str,
}

type Times = Family<Of, Histogram, fn() -> Histogram>;

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    served: Family<Of, Counter>,
    failed: Family<Why, Counter>,
    total: Times,
    queued: Times,
    delay: Times,
    depth: Family<Of, Gauge>,
    state: State,
}

/// What is looked up when somebody asks.
#[derive(Debug, Default)]
struct State {
    memory: Gauge,
    clients: Gauge,
    open: Gauge,
    models: Gauge,
    preemptions: Gauge,
    padded: Gauge,
    rt_finished: Gauge,
}

/// A look at the daemon.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) memory: u64,
    pub(crate) clients: usize,
    pub(crate) open: usize,
    pub(crate) models: usize,
    pub(crate) device: reef::Stats,
    pub(crate) depths: Vec<(Of, usize)>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Mutex::default(),
            served: Family::default(),
            failed: Family::default(),
            total: Family::new_with_constructor(times),
            queued: Family::new_with_constructor(times),
            delay: Family::new_with_constructor(times),
            depth: Family::default(),
            state: State::default(),
        };
        metrics.register(&mut metrics.registry.lock());
        metrics
    }

    fn register(&self, all: &mut Registry) {
        let reef = all.sub_registry_with_prefix("reef");
        reef.register("requests_served", "Requests that were answered", self.served.clone());
        reef.register("requests_failed", "Requests that were not", self.failed.clone());
        for (name, help, times) in [
            ("request", "From arrival until the output was there", &self.total),
            ("request_queue", "From arrival until the request began", &self.queued),
            ("rt_start", "From submission until real-time work could start", &self.delay),
        ] {
            reef.register_with_unit(name, help, Unit::Seconds, times.clone());
        }
        reef.register("queue_depth", "Requests that wait", self.depth.clone());
        let State { memory, clients, open, models, preemptions, padded, rt_finished } = &self.state;
        for (name, help, gauge) in [
            ("memory_bytes", "Memory that models and clients have reserved", memory),
            ("clients", "Connections", clients),
            ("open_requests", "Requests of gRPC and HTTP that are open", open),
            ("models", "Versions of models that are loaded", models),
            ("preemptions", "Preemptions of best-effort work", preemptions),
            ("padded_launches", "Real-time work with best-effort blocks beside it", padded),
            ("rt_finished", "Real-time tasks that the device finished", rt_finished),
        ] {
            reef.register(name, help, gauge.clone());
        }
    }

    /// Counts a request that has ended.
    pub(crate) fn note(&self, of: &Of, phases: &Phases, how: Result<(), &Error>) {
        match how {
            Ok(()) => {
                self.served.get_or_create(of).inc();
                self.total.get_or_create(of).observe(phases.total().as_secs_f64());
            }
            Err(error) => self.note_refused(of, error),
        }
        self.queued.get_or_create(of).observe(phases.queue.as_secs_f64());
        if let Some(delay) = phases.delay {
            self.delay.get_or_create(of).observe(delay.as_secs_f64());
        }
    }

    /// Counts a request that was refused before it was queued.
    pub(crate) fn note_refused(&self, of: &Of, error: &Error) {
        let Of { model, version, class } = of.clone();
        self.failed.get_or_create(&Why { model, version, class, reason: error.kind() }).inc();
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self, look: &Look) -> String {
        self.depth.clear(); // of models that are gone
        for (of, depth) in &look.depths {
            self.depth.get_or_create(of).set(*depth as i64);
        }
        let State { memory, clients, open, models, preemptions, padded, rt_finished } = &self.state;
        memory.set(look.memory as i64);
        clients.set(look.clients as i64);
        open.set(look.open as i64);
        models.set(look.models as i64);
        preemptions.set(look.device.preemptions as i64);
        padded.set(look.device.padded_launches as i64);
        rt_finished.set(look.device.rt_finished as i64);
        let mut text = String::new();
        encode(&mut text, &self.registry.lock()).expect("a string takes any text");
        text
    }
}

/// From a microsecond to half a minute.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(Duration::from_micros(1).as_secs_f64(), 2.0, 25))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_can_be_read() {
        let metrics = Metrics::new();
        let of = Of { model: "resnet18".into(), version: 1, class: "rt" };
        let phases = Phases {
            infer: Duration::from_millis(3),
            delay: Some(Duration::from_micros(5)),
            ..Phases::default()
        };
        metrics.note(&of, &phases, Ok(()));
        metrics.note(&of, &phases, Err(&Error::Deadline(String::new())));
        let device = reef::Stats { preemptions: 7, ..reef::Stats::default() };
        let look = Look { memory: 42, device, depths: vec![(of, 2)], ..Look::default() };
        let text = metrics.text(&look);
        let of = "model=\"resnet18\",version=\"1\",class=\"rt\"";
        for line in [
            format!("reef_requests_served_total{{{of}}} 1"),
            format!("reef_requests_failed_total{{{of},reason=\"deadline\"}} 1"),
            format!("reef_request_seconds_count{{{of}}} 1"),
            format!("reef_rt_start_seconds_count{{{of}}} 2"),
            format!("reef_queue_depth{{{of}}} 2"),
            "reef_memory_bytes 42".into(),
            "reef_preemptions 7".into(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }
}
