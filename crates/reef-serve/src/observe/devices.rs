//! Metrics of each device, for Prometheus.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Label: device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeviceLabels {
    device: String,
}

/// State of a device at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceSnapshot {
    pub(crate) name: String,
    pub(crate) units: u32,
    /// Time during which at least one inference was there.
    pub(crate) busy: Duration,
    pub(crate) stats: reef::Stats,
    /// Bytes of it that models and clients have reserved.
    pub(crate) memory: u64,
    /// Open requests and connections of the local path.
    pub(crate) load: usize,
    /// False once it is known to be lost.
    pub(crate) is_up: bool,
}

/// Metrics of devices, updated when the metrics are scraped.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    busy: Family<DeviceLabels, Counter<f64, AtomicU64>>,
    /// In the order of [`GAUGES`].
    gauges: [Family<DeviceLabels, Gauge>; GAUGES.len()],
}

type Value = fn(&DeviceSnapshot) -> u64;

/// Name, help, and value of each gauge.
const GAUGES: [(&str, &str, Value); 6] = [
    ("device_units", "Multiprocessors, compute units or threads", |of| of.units.into()),
    ("device_up", "1, or 0 if the device is lost", |of| of.is_up.into()),
    ("device_load", "Open requests, and connections of the local path", |of| of.load as u64),
    ("device_memory_bytes", "Memory that models and clients have reserved", |of| of.memory),
    ("device_preemptions", "Preemptions of best-effort work", |of| of.stats.preemptions),
    ("device_rt_finished", "Real-time tasks that it finished", |of| of.stats.rt_finished),
];

impl Devices {
    pub(crate) fn register(&self, reef: &mut Registry) {
        let help = "Time in which at least one inference was on the device";
        reef.register_with_unit("device_busy", help, Unit::Seconds, self.busy.clone());
        for ((name, help, _), family) in GAUGES.iter().zip(&self.gauges) {
            reef.register(*name, *help, family.clone());
        }
    }

    pub(crate) fn set(&self, devices: &[DeviceSnapshot]) {
        for device in devices {
            let on = DeviceLabels { device: device.name.clone() };
            let busy = self.busy.get_or_create(&on);
            busy.inc_by((device.busy.as_secs_f64() - busy.get()).max(0.0)); // up to what it is now
            drop(busy);
            for ((.., value), family) in GAUGES.iter().zip(&self.gauges) {
                family.get_or_create(&on).set(i64::try_from(value(device)).unwrap_or(i64::MAX));
            }
        }
    }
}
