//! Figures of models and GPUs under Triton's names, for its dashboards and autoscalers.

use crate::observe::stats::Numbers;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use reef_nvml::{Figures, Nvml};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

/// Labels: model and version, as Triton has them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    model: String,
    version: String,
}

/// Figures of one version of a model at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelFigures {
    pub(crate) model: String,
    pub(crate) version: u32,
    pub(crate) numbers: Numbers,
    /// Inferences of a request: the model's batch.
    pub(crate) batch: u64,
    pub(crate) executions: u64,
    pub(crate) waiting: usize,
}

/// Prefix of all names here.
const PREFIX: &str = "nv_inference_";

/// Name, help, and value.
type Series = (&'static str, &'static str, fn(&ModelFigures) -> u64);

const SERIES: [Series; 10] = [
    ("nv_inference_request_success", "Requests that were answered", |of| of.numbers.success.count),
    ("nv_inference_request_failure", "Requests that were not answered", |of| of.numbers.fail.count),
    ("nv_inference_count", "Inferences, of a batch each row", |of| {
        of.numbers.success.count * of.batch
    }),
    ("nv_inference_exec_count", "Executions, of which a batch is one", |of| of.executions),
    ("nv_inference_request_duration_us", "Time of requests", |of| micros(of.numbers.success.time)),
    ("nv_inference_queue_duration_us", "Time in the queue", |of| micros(of.numbers.queue.time)),
    ("nv_inference_compute_input_duration_us", "Time of inputs", |of| {
        micros(of.numbers.input.time)
    }),
    ("nv_inference_compute_infer_duration_us", "Time on the device", |of| {
        micros(of.numbers.infer.time)
    }),
    ("nv_inference_compute_output_duration_us", "Time of outputs", |of| {
        micros(of.numbers.output.time)
    }),
    (PENDING, "Requests that wait", |of| of.waiting as u64),
];

/// The only value that may fall.
const PENDING: &str = "nv_inference_pending_request_count";

/// Energy of a GPU, which only grows.
const ENERGY: &str = "nv_energy_consumption";

/// Name, help, and value of a GPU's state; `None` if it isn't known.
type GpuGauge = (&'static str, &'static str, fn(&Figures) -> Option<f64>);

const GPU_GAUGES: [GpuGauge; 6] = [
    ("nv_gpu_utilization", "Part of the time in which a kernel ran", |of| {
        of.utilization.map(|percent| f64::from(percent) / 100.0)
    }),
    ("nv_gpu_memory_total_bytes", "Bytes of memory", |of| of.memory.map(|[all, _]| all as f64)),
    ("nv_gpu_memory_used_bytes", "Bytes of memory that are used", |of| {
        of.memory.map(|[_, used]| used as f64)
    }),
    ("nv_gpu_power_usage", "Power in watts", |of| of.power.map(|power| f64::from(power) / 1e3)),
    ("nv_gpu_power_limit", "Power in watts that it may take", |of| {
        of.power_limit.map(|power| f64::from(power) / 1e3)
    }),
    (ENERGY, "Energy in joules since the driver was loaded", |of| {
        of.energy.map(|energy| energy as f64 / 1e3)
    }),
];

/// State of all GPUs that the management library knows, opened when it is first scraped.
#[derive(Debug, Default)]
pub(crate) struct GpuCollector(OnceLock<Option<Nvml>>);

impl Collector for GpuCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let opened = self.0.get_or_init(|| {
            let opened = Nvml::from_environment();
            opened.inspect_err(|error| tracing::debug!("no metrics of GPUs: {error}")).ok()
        });
        let all = opened.as_ref().and_then(|nvml| nvml.figures().ok()).unwrap_or_default();
        for (name, help, value) in GPU_GAUGES {
            let known = all.iter().filter_map(|(uuid, figures)| Some((uuid, value(figures)?)));
            let known: Vec<_> = known.collect();
            if known.is_empty() {
                continue;
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (uuid, value) in known {
                let labels = [("gpu_uuid", uuid.as_str())];
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns whether a metric of this name only grows. OpenMetrics has no counters of such names,
/// which would have to end in `_total`; they are gauges there.
pub(crate) fn is_counter(name: &str) -> bool {
    name.starts_with(PREFIX) && name != PENDING || name == ENERGY
}

/// Series of all models, in the order of [`SERIES`].
#[derive(Debug, Default)]
pub(crate) struct TritonMetrics([Family<Labels, Gauge>; SERIES.len()]);

impl TritonMetrics {
    pub(crate) fn register(&self, all: &mut Registry) {
        for ((name, help, _), family) in SERIES.iter().zip(&self.0) {
            all.register(*name, *help, family.clone());
        }
    }

    /// Replaces all series by those of the loaded models.
    pub(crate) fn set(&self, models: &[ModelFigures]) {
        for ((.., value), family) in SERIES.iter().zip(&self.0) {
            family.clear();
            for of in models {
                let labels = Labels { model: of.model.clone(), version: of.version.to_string() };
                let number = i64::try_from(value(of)).unwrap_or(i64::MAX);
                family.get_or_create(&labels).set(number);
            }
        }
    }
}
