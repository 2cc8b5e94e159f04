//! Metrics for Prometheus.
//!
//! Requests are counted as they end. A state that is not an event, such as the length of a queue,
//! is read when the metrics are scraped.

use crate::error::Error;
use crate::net::identity::client_id::Protocol;
use crate::observe::answers::{Answers, GONE};
use crate::observe::devices::{DeviceSnapshot, Devices};
use crate::observe::process::Process;
use crate::observe::series::SeriesLabels;
use crate::observe::shares::Shares;
use crate::observe::triton::{LOAD_RATIO, ModelFigures, TritonMetrics};
use crate::requests::job::Phases;
use crate::tenants::tenant::Tenant;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Labels: model and class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ClassLabels {
    pub(crate) model: String,
    pub(crate) version: u32,
    pub(crate) class: &'static str,
}

/// Label: model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ModelLabels {
    pub(crate) model: String,
    pub(crate) version: u32,
}

/// Labels: model and the engine that answers its requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct EngineLabels {
    pub(crate) model: String,
    pub(crate) version: u32,
    pub(crate) engine: &'static str,
}

/// Label: protocol.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProtocolLabels {
    path: &'static str,
}

/// Labels: model, class and reason of the failure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    model: String,
    version: u32,
    class: &'static str,
    reason: &'static str,
}

type Times = Family<ClassLabels, Histogram, fn() -> Histogram>;

/// All metrics of the daemon.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    served: Family<ClassLabels, Counter>,
    failed: Family<FailureLabels, Counter>,
    total: Times,
    queued: Times,
    inferred: Times,
    delay: Times,
    load: Times,
    depth: Family<ClassLabels, Gauge>,
    pub(crate) answers: Answers,
    process: Process,
    shares: Shares,
    devices: Devices,
    triton: TritonMetrics,
    state: State,
    /// Series of requests, to be removed with their model.
    classes: SeriesLabels<ClassLabels>,
    failures: SeriesLabels<FailureLabels>,
}

/// Gauges that are set when the metrics are scraped.
#[derive(Debug, Default)]
struct State {
    clients: Family<ProtocolLabels, Gauge>,
    sizes: Family<ModelLabels, Gauge>,
    engines: Family<EngineLabels, Gauge>,
    /// In the order of [`GAUGES`].
    gauges: [Gauge; GAUGES.len()],
}

type Value = fn(&Snapshot) -> u64;

/// Name, help, and value of each gauge without labels.
const GAUGES: [(&str, &str, Value); 10] = [
    ("memory_bytes", "Memory that models and clients have reserved", |now| now.memory),
    ("request_memory_bytes", "Memory that open requests and answers take", |now| {
        now.request_memory
    }),
    ("open_requests", "Requests of gRPC and HTTP that are open", |now| now.open as u64),
    ("models", "Versions of models that are loaded", |now| now.models as u64),
    ("preemptions", "Preemptions of best-effort work", |now| now.sum(|of| of.preemptions)),
    ("padded_launches", "Real-time launches padded with best-effort blocks", |now| {
        now.sum(|of| of.padded_launches)
    }),
    ("padded_blocks", "Best-effort blocks launched as padding of real-time work", |now| {
        now.sum(|of| of.padded_blocks)
    }),
    ("rt_finished", "Real-time tasks that the device finished", |now| now.sum(|of| of.rt_finished)),
    (
        "retries",
        "Refusals of the device to stop or restore best-effort work, each asked again",
        |now| now.sum(|of| of.retries),
    ),
    (
        "abandoned_queues",
        "Best-effort queues whose work on the device did not end, and may use memory there",
        |now| now.sum(|of| of.abandoned),
    ),
];

/// State of the daemon at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) devices: Vec<DeviceSnapshot>,
    pub(crate) memory: u64,
    /// Bytes of each model.
    pub(crate) sizes: Vec<(ModelLabels, u64)>,
    /// Engine of each model.
    pub(crate) engines: Vec<EngineLabels>,
    /// One for each of [`Protocol::ALL`].
    pub(crate) clients: [usize; 3],
    pub(crate) open: usize,
    /// Bytes of requests and their answers.
    pub(crate) request_memory: u64,
    pub(crate) models: usize,
    pub(crate) depths: Vec<(ClassLabels, usize)>,
    /// One for each version of a model.
    pub(crate) figures: Vec<ModelFigures>,
    pub(crate) tenants: Vec<Arc<Tenant>>,
    /// Part of the device that is reserved for best-effort work.
    pub(crate) reserve: f64,
}

impl Snapshot {
    /// Sums a figure of the devices.
    fn sum(&self, of: fn(&reef::Stats) -> u64) -> u64 {
        self.devices.iter().map(|device| of(&device.stats)).sum()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::default(),
            served: Family::default(),
            failed: Family::default(),
            total: Family::new_with_constructor(times),
            queued: Family::new_with_constructor(times),
            inferred: Family::new_with_constructor(times),
            delay: Family::new_with_constructor(times),
            load: Family::new_with_constructor(ratios),
            depth: Family::default(),
            answers: Answers::default(),
            process: Process::default(),
            shares: Shares::default(),
            devices: Devices::default(),
            triton: TritonMetrics::default(),
            state: State::default(),
            classes: SeriesLabels::default(),
            failures: SeriesLabels::default(),
        };
        metrics.register(&mut metrics.registry.lock());
        metrics
    }
}

impl Metrics {
    fn register(&self, all: &mut Registry) {
        self.process.register(all);
        self.triton.register(all);
        let help = "Time of requests, divided by the part of it in which they were computed";
        all.register(LOAD_RATIO, help, self.load.clone());
        let reef = all.sub_registry_with_prefix("reef");
        reef.register("requests_served", "Requests that were answered", self.served.clone());
        reef.register("requests_failed", "Requests that were not", self.failed.clone());
        let help = "Requests of gRPC and HTTP by how they ended";
        reef.register("answers", help, self.answers.counters());
        for (name, help, times) in [
            ("request", "From arrival until the output was there", &self.total),
            ("request_queue", "From arrival until the request began", &self.queued),
            ("request_infer", "On the device, with the wait for it", &self.inferred),
            ("rt_start", "From submission until real-time work could start", &self.delay),
        ] {
            reef.register_with_unit(name, help, Unit::Seconds, times.clone());
        }
        reef.register("queue_depth", "Requests that wait", self.depth.clone());
        self.shares.register(reef);
        self.devices.register(reef);
        let State { clients, sizes, engines, gauges } = &self.state;
        reef.register("clients", "Connections", clients.clone());
        reef.register("model_memory_bytes", "Memory that a model has reserved", sizes.clone());
        reef.register("model_engine", "1 for the engine that answers for a model", engines.clone());
        for ((name, help, _), gauge) in GAUGES.iter().zip(gauges) {
            reef.register(*name, *help, gauge.clone());
        }
    }

    /// Registers a collector of other metrics.
    pub(crate) fn add(&self, numbers: Box<dyn Collector>) {
        self.registry.lock().register_collector(numbers);
    }

    /// Counts a request of a model once, when its answer is known. `None`: its client disconnected
    /// before that.
    pub(crate) fn note_answer(
        &self,
        of: &ClassLabels,
        time: Duration,
        outcome: Option<Result<(), &Error>>,
    ) {
        match outcome {
            Some(Ok(())) => {
                self.served.get_or_create(of).inc();
                self.total.get_or_create(of).observe(time.as_secs_f64());
                self.classes.note(of);
            }
            Some(Err(error)) => self.note_failed(of, error.kind()),
            None => self.note_failed(of, GONE),
        }
    }

    fn note_failed(&self, of: &ClassLabels, reason: &'static str) {
        let ClassLabels { model, version, class } = of.clone();
        let of = FailureLabels { model, version, class, reason };
        self.failed.get_or_create(&of).inc();
        self.failures.note(&of);
    }

    /// Records the phases of a request that an instance has run.
    pub(crate) fn note_phases(&self, of: &ClassLabels, phases: &Phases) {
        self.queued.get_or_create(of).observe(phases.queue.as_secs_f64());
        if !phases.infer.is_zero() {
            self.inferred.get_or_create(of).observe(phases.infer.as_secs_f64());
            let computed = phases.input + phases.infer + phases.output;
            let ratio = phases.total().as_secs_f64() / computed.as_secs_f64();
            self.load.get_or_create(of).observe(ratio);
        }
        if let Some(delay) = phases.delay {
            self.delay.get_or_create(of).observe(delay.as_secs_f64());
        }
        self.classes.note(of);
    }

    /// Removes the series of models that are not loaded any more.
    fn forget_unloaded(&self, loaded: &[(ModelLabels, u64)]) {
        let loaded: HashSet<_> = loaded.iter().map(|(of, _)| (&*of.model, of.version)).collect();
        for of in self.classes.retain(|of| loaded.contains(&(&*of.model, of.version))) {
            self.served.remove(&of);
            for times in [&self.total, &self.queued, &self.inferred, &self.delay, &self.load] {
                times.remove(&of);
            }
        }
        for of in self.failures.retain(|of| loaded.contains(&(&*of.model, of.version))) {
            self.failed.remove(&of);
        }
    }

    /// Returns all metrics as text, with the state from `snapshot`.
    pub(crate) fn text(&self, snapshot: &Snapshot) -> String {
        let registry = self.registry.lock(); // one scrape at a time
        self.devices.set(&snapshot.devices);
        self.triton.set(&snapshot.figures);
        self.state.set(snapshot);
        self.process.update();
        self.shares.set(snapshot.tenants.iter().map(|tenant| &**tenant), snapshot.reserve);
        self.forget_unloaded(&snapshot.sizes);
        self.depth.clear(); // of models that are gone
        for (of, depth) in &snapshot.depths {
            self.depth.get_or_create(of).inc_by(*depth as i64); // of each replica
        }
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes any text");
        text
    }
}

impl State {
    fn set(&self, snapshot: &Snapshot) {
        for (protocol, clients) in Protocol::ALL.into_iter().zip(snapshot.clients) {
            self.clients
                .get_or_create(&ProtocolLabels { path: protocol.name() })
                .set(clients as i64);
        }
        self.sizes.clear(); // of models that are gone
        for (which, bytes) in &snapshot.sizes {
            self.sizes.get_or_create(which).set(*bytes as i64);
        }
        self.engines.clear(); // likewise
        for which in &snapshot.engines {
            self.engines.get_or_create(which).set(1);
        }
        for ((.., value), gauge) in GAUGES.iter().zip(&self.gauges) {
            gauge.set(value(snapshot) as i64);
        }
    }
}

/// Returns a histogram from a microsecond to half a minute.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(Duration::from_micros(1).as_secs_f64(), 2.0, 25))
}

/// Returns a histogram of ratios, from that of a request that did not wait.
fn ratios() -> Histogram {
    Histogram::new([1.05, 1.1, 1.25, 1.5, 2.0, 10.0, 50.0])
}

#[cfg(test)]
mod tests;
