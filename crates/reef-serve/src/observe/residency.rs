//! Metrics of processes that are on the GPU on demand, read when they are scraped.

use super::series::write_family;
use crate::residency::facts::{ProcessName, Residency, StartKind, Starts};
use crate::residency::residents::Residents;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Metrics of these processes.
#[derive(Debug)]
pub(crate) struct ResidencyCollector(pub(crate) Arc<Residents>);

type Value = fn(&Residency) -> Option<f64>;

type Sum = fn(&Residency) -> f64;

type SumOfStarts = fn(&Starts) -> f64;

/// Name, help, and value of each gauge; `None` if it is not known.
const GAUGES: [(&str, &str, Value); 2] = [
    ("reef_model_resident_bytes", "Bytes of a process on its GPUs", |one| {
        one.bytes.map(|bytes| bytes as f64)
    }),
    ("reef_model_returned_seconds", "Time of the last return of a process, since 1970", |one| {
        Some(one.returned?.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
    }),
];

/// Name, help, and value of each counter.
const COUNTERS: [(&str, &str, Sum); 2] = [
    ("reef_model_returns", "Returns of a process to its GPUs", |one| one.returns as f64),
    ("reef_model_return_seconds", "Time of the returns of a process", |one| {
        one.return_time.as_secs_f64()
    }),
];

/// Name, help, and value of each counter that has one for each kind of start.
const START_COUNTERS: [(&str, &str, SumOfStarts); 2] = [
    ("reef_model_starts", "Starts of a process by kind: cold, or warm from a folder", |starts| {
        starts.count as f64
    }),
    ("reef_model_start_seconds", "Time of the starts of a process until it was ready", |starts| {
        starts.time.as_secs_f64()
    }),
];

impl Collector for ResidencyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = newest(self.0.all());
        if all.is_empty() {
            return Ok(());
        }
        let help = "1 for the state of a process that is on its GPUs on demand";
        let series = all.iter().map(|one| {
            let [model, version, class, instance, device] = labels(one);
            let state = ("state", one.state.name().to_owned());
            ([model, version, class, instance, device, state], ConstGauge::new(1_i64))
        });
        write_family(&mut encoder, "reef_model_residency", help, series)?;
        for (name, help, value) in GAUGES {
            let series = |one| Some((labels(one), ConstGauge::new(value(one)?)));
            write_family(&mut encoder, name, help, all.iter().filter_map(series))?;
        }
        for (name, help, value) in COUNTERS {
            let series = |one| (labels(one), ConstCounter::new(value(one)));
            write_family(&mut encoder, name, help, all.iter().map(series))?;
        }
        for (name, help, value) in START_COUNTERS {
            let series = all.iter().flat_map(|one| {
                let kinds = StartKind::ALL.iter().zip(&one.starts);
                kinds.filter(|(_, starts)| starts.count > 0).map(move |(kind, starts)| {
                    let [model, version, class, instance, device] = labels(one);
                    let kind = ("kind", kind.name().to_owned());
                    let labels = [model, version, class, instance, device, kind];
                    (labels, ConstCounter::new(value(starts)))
                })
            });
            write_family(&mut encoder, name, help, series)?;
        }
        Ok(())
    }
}

/// Keeps the newest process of each name: a model that is being replaced has two for a moment.
fn newest(mut all: Vec<Residency>) -> Vec<Residency> {
    let mut names: HashSet<ProcessName> = HashSet::new();
    all.reverse();
    all.retain(|one| names.insert(one.name.clone()));
    all
}

fn labels(one: &Residency) -> [(&'static str, String); 5] {
    let name = &one.name;
    [
        ("model", name.model.clone()),
        ("version", name.version.to_string()),
        ("class", name.class.name().to_owned()),
        ("instance", name.instance.to_string()),
        ("device", name.device.clone()),
    ]
}
