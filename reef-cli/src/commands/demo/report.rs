//! Tables, plot and JSON of the demo.

use super::args::Chosen;
use super::measure::{Bench, Outcome};
use crate::report::chart;
use crate::report::table::{Table, micros, millis, table};
use crate::report::time;
use hdrhistogram::Histogram;
use reef::op::Operators;
use serde_json::{Value, json};
use std::path::Path;

/// Measurements by these names are always there. REEF's lower bound, which never lets best-effort
/// work run, is real-time work alone.
pub(crate) const RT_ALONE: &str = "rt-only";
pub(crate) const BE_ALONE: &str = "BE alone";
/// Begins the names of measurements of preemption.
pub(crate) const LEVEL: &str = "level ";

/// The measurements of one name, which is always there.
fn named<'a>(outcomes: &'a [(String, Outcome)], name: &str) -> &'a Outcome {
    &outcomes.iter().find(|(have, _)| have == name).expect("it was measured").1
}

/// Networks and the device.
pub(crate) fn header<D: Operators>(
    chosen: &Chosen<'_>,
    device: &D,
    bench: &Bench<'_, D>,
) -> String {
    let be: Vec<_> = bench.be.iter().map(|named| named.name.as_str()).collect();
    format!(
        "{} ({})\n{}RT  {} every {:.1} ms\nBE  {}, closed loop\n",
        chosen.args.device,
        device.info().name,
        simulation(chosen),
        bench.rt.name,
        bench.period.as_secs_f64() * 1e3,
        be.join(", ")
    )
}

/// Note on the numbers if the device is software.
fn simulation(chosen: &Chosen<'_>) -> String {
    let (Some(size), true) = (chosen.size, chosen.simulated) else { return String::new() };
    format!(
        "A software device, so what is not asked for is small: pictures of {size} x {size}, {} a row, \
         one BE client.\nTimes are those of this machine's CPU, not of a GPU.\n",
        time::show(chosen.time)
    )
}

/// Real-time latency and best-effort throughput under each scheduler.
pub(crate) fn schedulers<D: Operators>(
    bench: &Bench<'_, D>,
    outcomes: &[(String, Outcome)],
) -> Table {
    let [rt_alone, be_alone] = [RT_ALONE, BE_ALONE].map(|name| named(outcomes, name));
    let mut table =
        table(&["scheduler", "RT p50 ms", "÷ alone", "RT p99 ms", "÷ alone", "BE kept", "padded"]);
    for (name, outcome) in outcomes.iter().filter(|(name, _)| !name.starts_with(LEVEL)) {
        let ratio =
            |q| millis(&outcome.requests.latency, q) / millis(&rt_alone.requests.latency, q);
        let rt =
            |text: String| if outcome.requests.latency.is_empty() { "–".into() } else { text };
        table.add_row([
            if name == RT_ALONE { format!("{name} (alone)") } else { name.clone() },
            rt(format!("{:.2}", millis(&outcome.requests.latency, 0.5))),
            rt(format!("{:.2}", ratio(0.5))),
            rt(format!("{:.2}", millis(&outcome.requests.latency, 0.99))),
            rt(format!("{:.2}", ratio(0.99))),
            percent(bench.be_kept(outcome, be_alone)),
            outcome.stats.padded_launches.to_string(),
        ]);
    }
    table
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".into(), |share| format!("{:.0} %", 100.0 * share))
}

/// When real-time work starts at each level, and how much later that is than on an idle device.
///
/// Earlier is possible: the units of an idle device sleep, those of a busy one don't.
pub(crate) fn levels(outcomes: &[(String, Outcome)]) -> Table {
    let idle = &named(outcomes, RT_ALONE).requests.start;
    let mut table = table(&["RT starts after", "p50 µs", "− idle", "p99 µs", "− idle", "requests"]);
    for (name, outcome) in outcomes {
        let what = match name.strip_prefix(LEVEL) {
            Some(level) => format!("preemption at {level}"),
            None if name == RT_ALONE => "idle device".into(),
            None => continue,
        };
        let start = |q| micros(&outcome.requests.start, q);
        let over = |q| format!("{:+.1}", start(q) - micros(idle, q));
        table.add_row([
            what,
            format!("{:.1}", start(0.5)),
            over(0.5),
            format!("{:.1}", start(0.99)),
            over(0.99),
            outcome.requests.start.len().to_string(),
        ]);
    }
    table
}

/// Everything as JSON.
pub(crate) fn json<D: Operators>(bench: &Bench<'_, D>, outcomes: &[(String, Outcome)]) -> Value {
    let be_alone = named(outcomes, BE_ALONE);
    let quantiles = |h: &Histogram<u64>| json!({ "count": h.len(), "p50": micros(h, 0.5), "p90": micros(h, 0.9), "p99": micros(h, 0.99) });
    let rows: Vec<_> = outcomes
        .iter()
        .map(|(name, outcome)| {
            json!({
                "name": name,
                "rt_latency_us": quantiles(&outcome.requests.latency),
                "rt_start_delay_us": quantiles(&outcome.requests.start),
                "be_kept": bench.be_kept(outcome, be_alone),
                "rt_dropped": outcome.requests.dropped,
                "be_inferences_per_second": outcome.be_rates,
                "preemptions": outcome.stats.preemptions,
                "padded_launches": outcome.stats.padded_launches,
            })
        })
        .collect();
    json!({
        "rt": bench.rt.name,
        "rt_period_us": bench.period.as_micros() as u64,
        "be": bench.be.iter().map(|named| &named.name).collect::<Vec<_>>(),
        "measurements": rows,
    })
}

/// Draws how many real-time requests took how long at most, under each scheduler.
pub(crate) fn plot(path: &Path, outcomes: &[(String, Outcome)]) -> anyhow::Result<()> {
    let both = |name: &str| !name.starts_with(LEVEL) && name != BE_ALONE;
    let shown = outcomes.iter().filter(|(name, _)| both(name));
    let series = shown.map(|(name, outcome)| (name.as_str(), &outcome.requests.latency));
    chart::shares(path, "Real-time latency, logarithmic", ("ms", 1e6), series)
}
