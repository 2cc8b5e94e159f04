//! Metrics of guests, read when they are scraped.

use super::violations::find::KINDS;
use super::violations::scan::Violations;
use crate::observe::series::write_family;
use crate::suspend::memory_policy::MemoryPolicy;
use crate::suspend::suspensions::Suspensions;
use prometheus_client::collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use reef_guest::colocation::Slo;
use reef_guest::page::{Class, ENDS};
use reef_guest::registry::{GuestView, Registry};
use std::fmt::{Error, Write};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Reads the registry while it exists.
#[derive(Debug)]
pub(super) struct Collector(pub(super) Weak<Registry>);

type Number = fn(&GuestView) -> u64;

/// Name, help, and getter of each counter. Guests report these numbers themselves.
const COUNTERS: [(&str, &str, Number); 13] = [
    ("reef_guest_kernels", "Kernels that a guest launched", |guest| guest.kernels),
    ("reef_guest_graphs", "Graphs that a guest launched", |guest| guest.graphs),
    (
        "reef_guest_graph_kernels",
        "Kernels in the graphs that a real-time guest launched",
        |guest| guest.graph_kernels,
    ),
    (
        "reef_guest_iterations",
        "Iterations of a real-time guest: launches and a wait for the device",
        |guest| guest.iterations,
    ),
    ("reef_guest_gates", "Gates in a guest's streams and graphs", |guest| guest.gates),
    ("reef_guest_delayed", "Launches that found the gate closed", |guest| guest.delayed),
    ("reef_guest_holds", "Times at which a guest was held, or held others", |guest| guest.holds),
    ("reef_guest_starvation_reliefs", "Gates opened after too long", |guest| {
        guest.starvation_reliefs
    }),
    (
        "reef_guest_stalls",
        "Times a real-time guest was busy for too long without a sign of work, and others were released",
        |guest| guest.stalls,
    ),
    (
        "reef_guest_long_silences",
        "Measurements of a real-time guest alone for which others were held for more than 20 ms",
        |guest| guest.long_silences,
    ),
    ("reef_guest_refused", "Gates and marks that the driver refused", |guest| guest.refused),
    ("reef_guest_sliced", "Launches of long kernels in slices", |guest| guest.sliced),
    ("reef_guest_whole", "Launches of long kernels as a whole", |guest| guest.whole),
];

type Time = fn(&GuestView) -> Duration;

/// Name, help, and getter of each time.
const TIMES: [(&str, &str, Time); 4] = [
    ("reef_guest_held_seconds", "Time in which a guest was held, or held others", |guest| {
        guest.held
    }),
    (
        "reef_guest_busy_seconds",
        "Time in which a guest seemed to use its device: an estimate, rather too much",
        |guest| guest.busy,
    ),
    (
        "reef_guest_passed_seconds",
        "Time in which a best-effort guest passed although a real-time guest was busy",
        |guest| guest.passed,
    ),
    ("reef_guest_iteration_seconds", "Time of a real-time guest's iterations together", |guest| {
        guest.iteration_time
    }),
];

type Ratio = fn(&GuestView) -> Option<f64>;

/// Name, help, and getter of each ratio; `None` if a guest has none.
const RATIOS: [(&str, &str, Ratio); 3] = [
    (
        "reef_guest_colocation_ratio",
        "Part of the time that passes next to busy real-time guests now; of a real-time guest with a target, what it lets through",
        |guest| Some(f64::from(guest.duty) / 1e6),
    ),
    ("reef_guest_slo_ratio", "Target of a real-time guest's latency, by that alone", |guest| {
        guest.colocate.slo.filter(|_| guest.who.class == Class::RealTime).map(Slo::ratio)
    }),
    (
        "reef_guest_growth_ratio",
        "Latency of a real-time guest with a target by that alone, at the 99th percentile",
        |guest| guest.growth,
    ),
];

impl collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut guests = self.0.upgrade().map(|registry| registry.guests()).unwrap_or_default();
        // The daemon's own work has its own metrics.
        guests.retain(|guest| guest.who.pid != std::process::id());
        for (name, help, number) in COUNTERS {
            let series = |guest| (labels(guest), ConstCounter::new(number(guest)));
            write_family(&mut encoder, name, help, guests.iter().map(series))?;
        }
        for (name, help, time) in TIMES {
            let series = |guest| (labels(guest), ConstCounter::new(time(guest).as_secs_f64()));
            write_family(&mut encoder, name, help, guests.iter().map(series))?;
        }
        for (name, help, ratio) in RATIOS {
            let series = |guest| Some((labels(guest), ConstGauge::new(ratio(guest)?)));
            write_family(&mut encoder, name, help, guests.iter().filter_map(series))?;
        }
        let help = "1 while a best-effort guest is held, or a real-time guest holds";
        let series =
            |guest: &GuestView| (labels(guest), ConstGauge::new(i64::from(guest.is_active)));
        write_family(&mut encoder, "reef_guest_active", help, guests.iter().map(series))?;
        times(encoder, &guests)
    }
}

/// Metrics of violations.
#[derive(Debug)]
pub(super) struct ViolationCollector(pub(super) Arc<Violations>);

impl collector::Collector for ViolationCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Violations that were found since the daemon started";
        let series =
            KINDS.map(|kind| ([("kind", kind.name())], ConstCounter::new(self.0.count(kind))));
        write_family(&mut encoder, "reef_violations", help, series)?;
        let help = "1 for each that is so now: a page that was changed, memory beyond a limit, a process that isn't a guest";
        let series = self.0.now().into_iter().map(|found| {
            let labels = [
                ("kind", found.kind.name().to_owned()),
                ("device", hex(&found.device)),
                ("pid", found.pid.to_string()),
                ("job", found.job),
            ];
            (labels, ConstGauge::new(1_i64))
        });
        write_family(&mut encoder, "reef_violation", help, series)
    }
}

/// Metrics of suspended guests.
#[derive(Debug)]
pub(super) struct SuspensionCollector(pub(super) Arc<Suspensions>, pub(super) MemoryPolicy);

impl collector::Collector for SuspensionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Bytes that a suspended process had on its GPUs";
        let series = self.0.all().into_iter().map(|one| {
            let labels = [("pid", one.process.pid.to_string()), ("name", one.name.clone())];
            (labels, ConstGauge::new(i64::try_from(one.bytes()).unwrap_or(i64::MAX)))
        });
        write_family(&mut encoder, "reef_suspended_bytes", help, series)?;
        let figures = self.0.figures();
        let counts = [
            ("suspend", figures.suspensions),
            ("resume", figures.resumes),
            ("refused", figures.refused),
        ];
        let help = "Suspensions and returns of guests, and those that were refused";
        let series = counts.map(|(op, count)| ([("op", op)], ConstCounter::new(count)));
        write_family(&mut encoder, "reef_suspensions", help, series)?;
        let outcomes = self.1.outcomes();
        let help = "Requests of real-time programs for memory";
        let counts = [("granted", outcomes.granted), ("refused", outcomes.refused)];
        let series = counts.map(|(of, count)| ([("outcome", of)], ConstCounter::new(count)));
        write_family(&mut encoder, "reef_memory_requests", help, series)?;
        let steps = [
            ("lock", figures.steps.lock),
            ("checkpoint", figures.steps.checkpoint),
            ("restore", figures.steps.restore),
            ("unlock", figures.steps.unlock),
        ];
        let help = "Time of the steps of suspensions and returns";
        let series = steps.map(|(step, seconds)| ([("step", step)], ConstCounter::new(seconds)));
        write_family(&mut encoder, "reef_suspension_seconds", help, series)
    }
}

/// Encodes the histograms of guests with a profile.
fn times(mut encoder: DescriptorEncoder<'_>, guests: &[GuestView]) -> Result<(), Error> {
    let help = "Host time of a guest's calls of its driver, if it has a profile";
    let name = "reef_guest_call_seconds";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for guest in guests {
        for times in &guest.times {
            let [guest, class, pid, device, job] = labels(guest);
            let call = ("call", times.of.name().to_owned());
            let labels = [guest, class, pid, device, job, call];
            let mut encoder = family.encode_family(&labels)?;
            let ends = ENDS.iter().map(|end| *end as f64 / 1e9).chain([f64::INFINITY]);
            let buckets: Vec<_> = ends.zip(times.counts).collect();
            let (sum, count) = (times.sum.as_secs_f64(), times.counts.iter().sum());
            encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
    }
    Ok(())
}

/// Formats the UUID of a device.
pub(super) fn hex(device: &[u8; 16]) -> String {
    device.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a string accepts any text
        text
    })
}

fn labels(guest: &GuestView) -> [(&'static str, String); 5] {
    let device = hex(&guest.device);
    [
        ("guest", guest.who.guest.to_string()),
        ("class", guest.who.class.to_string()),
        ("pid", guest.who.pid.to_string()),
        ("device", device),
        ("job", guest.job.clone()),
    ]
}
