//! Figures of models and GPUs under Triton's names, for its dashboards and autoscalers.

use crate::observe::series::write_family;
use crate::observe::stats::Numbers;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use reef_nvml::{Figures, Nvml};
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
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

const SERIES: [Series; 11] = [
    ("nv_inference_request_success", "Requests that were answered", |of| of.numbers.success.count),
    ("nv_inference_request_failure", "Requests that were not answered", |of| of.numbers.fail.count),
    ("nv_inference_count", "Inferences, of a batch each row", |of| {
        of.numbers.success.count * of.batch
    }),
    ("nv_inference_exec_count", "Executions, of which a batch is one", |of| of.executions),
    ("nv_inference_request_duration_us", "Time of requests", |of| micros(of.numbers.success.time)),
    ("nv_inference_queue_duration_us", "Time in the queue", |of| micros(of.numbers.queue.time)),
    ("nv_inference_compute_duration_us", "Time of inputs, on the device, and of outputs", |of| {
        micros(of.numbers.input.time + of.numbers.infer.time + of.numbers.output.time)
    }),
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

/// The only value of a model that may fall.
const PENDING: &str = "nv_inference_pending_request_count";

/// Time of requests, divided by the part of it in which they were computed: a histogram.
pub(crate) const LOAD_RATIO: &str = "nv_inference_load_ratio";

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

/// Longest wait of a scrape for the management library.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Figures of each GPU by its UUID. `None`: there is no management library.
pub(crate) type AllFigures = Option<Vec<(String, Figures)>>;

/// State of all GPUs that the management library knows, opened when it is first scraped.
///
/// A call of the library may never return. So threads make them, one at a time, and a scrape waits
/// for a while. While a call is late, scrapes say so and don't wait.
pub(crate) struct GpuCollector {
    ask: Arc<dyn Fn() -> AllFigures + Send + Sync>,
    late: Mutex<Option<Receiver<AllFigures>>>,
}

impl fmt::Debug for GpuCollector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("GpuCollector").field("late", &self.late).finish_non_exhaustive()
    }
}

impl Default for GpuCollector {
    fn default() -> Self {
        let library = OnceLock::new();
        Self::asking(move || {
            let opened = library.get_or_init(|| {
                let opened = Nvml::from_environment();
                opened.inspect_err(|error| tracing::debug!("no metrics of GPUs: {error}")).ok()
            });
            opened.as_ref().map(|nvml| nvml.figures().unwrap_or_default())
        })
    }
}

impl GpuCollector {
    /// Collects what `ask` returns.
    pub(crate) fn asking(ask: impl Fn() -> AllFigures + Send + Sync + 'static) -> Self {
        Self { ask: Arc::new(ask), late: Mutex::default() }
    }

    /// Returns the figures; `Err` if the library hangs.
    fn figures(&self) -> Result<AllFigures, Hangs> {
        let mut late = self.late.lock();
        if late.as_ref().is_some_and(|late| matches!(late.try_recv(), Err(TryRecvError::Empty))) {
            return Err(Hangs);
        }
        *late = None; // an answer that was late is old
        let (answer, answered) = channel();
        let ask = self.ask.clone();
        let asks = move || answer.send(ask()).unwrap_or(()); // a late one has no receiver
        if let Err(error) = thread::Builder::new().name("reef-nvml".into()).spawn(asks) {
            tracing::debug!("no metrics of GPUs: no thread: {error}");
        }
        match answered.recv_timeout(ANSWER_TIMEOUT) {
            Ok(all) => Ok(all),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                *late = Some(answered);
                Err(Hangs)
            }
        }
    }
}

/// A call of the management library has not returned.
#[derive(Debug)]
struct Hangs;

impl Collector for GpuCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (all, hangs) = match self.figures() {
            Ok(None) => return Ok(()),
            Ok(Some(all)) => (all, 0),
            Err(Hangs) => (Vec::new(), 1),
        };
        let help =
            "Whether NVIDIA's management library answers no call, so that its figures are missing";
        let gauge = encoder.encode_descriptor("reef_nvml_hangs", help, None, MetricType::Gauge)?;
        ConstGauge::new(hangs).encode(gauge)?;
        for (name, help, value) in GPU_GAUGES {
            let known = all.iter().filter_map(|(uuid, figures)| Some((uuid, value(figures)?)));
            let known: Vec<_> = known.collect();
            if known.is_empty() {
                continue;
            }
            let series = known
                .into_iter()
                .map(|(uuid, value)| ([("gpu_uuid", uuid.as_str())], ConstGauge::new(value)));
            write_family(&mut encoder, name, help, series)?;
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
    name.starts_with(PREFIX) && ![PENDING, LOAD_RATIO].contains(&name) || name == ENERGY
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

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::Instant;

    fn scrape(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn library_that_hangs_delays_one_scrape() {
        let (calls, (hang, hung)) = (Arc::new(AtomicU32::new(0)), channel::<()>());
        let (counted, hung) = (calls.clone(), Mutex::new(hung));
        let figures = Figures { utilization: Some(50), ..Figures::default() };
        let collector = GpuCollector::asking(move || {
            counted.fetch_add(1, SeqCst);
            let _ = hung.lock().recv(); // until the other end is dropped
            Some(vec![("GPU-1".into(), figures)])
        });
        let mut registry = Registry::default();
        registry.register_collector(Box::new(collector));
        let begin = Instant::now();
        for _ in 0..100 {
            let text = scrape(&registry);
            assert!(text.contains("reef_nvml_hangs 1\n") && !text.contains("nv_gpu_"), "{text}");
        }
        assert!(begin.elapsed() < 50 * ANSWER_TIMEOUT, "{:?} for 100", begin.elapsed());
        assert_eq!(calls.load(SeqCst), 1, "no further call while one hangs");
        drop(hang);
        let goes_on = || scrape(&registry).contains("nv_gpu_utilization{gpu_uuid=\"GPU-1\"} 0.5");
        while !goes_on() {
            assert!(begin.elapsed() < Duration::from_secs(120), "it answers again");
        }
        assert!(scrape(&registry).contains("reef_nvml_hangs 0\n"));
    }

    #[test]
    fn missing_library_has_no_metrics() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(GpuCollector::asking(|| None)));
        assert_eq!(scrape(&registry), "# EOF\n");
    }
}
