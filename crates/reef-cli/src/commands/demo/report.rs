//! Tables, plot, JSON and the sentence of the demo.

use super::args::Chosen;
use super::blocks::{BLOCK, PERIOD, Start};
use super::measure::{Bench, Outcome};
use crate::report::chart::{self, Panel, Series};
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
/// Requests without best-effort work.
pub(crate) const IDLE: &str = "idle device";
/// Scheduler that the last sentence compares REEF with.
pub(crate) const RIVAL: &str = "stream-priority";
/// Begins the names of measurements of REEF next to long blocks; the deepest level comes last.
pub(crate) const LEVEL: &str = "level ";
/// REEF next to networks.
const REEF: &str = "reef";
/// Columns of the table of starts next to long blocks.
const START_COLUMNS: [&str; 6] =
    ["scheduler", "start p50 µs", "p90 µs", "max µs", "BE kept", "requests"];
/// Columns of the table of requests next to networks.
const SCHEDULER_COLUMNS: [&str; 6] =
    ["scheduler", "RT p50 ms", "÷ alone", "RT p99 ms", "÷ alone", "BE kept"];
/// Times of blocks, as parts of the one that they are made for, that are as good as that one.
const SAME_BLOCK: std::ops::RangeInclusive<f64> = 0.8..=1.25;
/// Median of requests alone by the smallest one next to other work, above which the machine was
/// busy.
const MAX_ALONE: f64 = 1.25;
/// Last line of a demo on a busy machine.
const DISTURBED: &str = "\nA request took longer alone than next to best-effort work, so other programs \
                         disturbed the demo: run it again on an idle machine.";

/// All that was measured.
pub(crate) struct Results<'a, D: Operators> {
    pub(crate) chosen: &'a Chosen<'a>,
    /// Requests next to long blocks.
    pub(crate) starts: &'a [Start],
    pub(crate) bench: &'a Bench<'a, D>,
    /// Networks.
    pub(crate) outcomes: &'a [(String, Outcome)],
}

impl<D: Operators> Results<'_, D> {
    /// The measurement of networks of this name, which is always there.
    fn named(&self, name: &str) -> &Outcome {
        &self.outcomes.iter().find(|(have, _)| have == name).expect("it was measured").1
    }

    /// The measurement next to long blocks of this name, which is always there.
    fn start(&self, name: &str) -> &Start {
        self.starts.iter().find(|start| start.name == name).expect("it was measured")
    }

    /// Part of best-effort work that was kept next to long blocks.
    fn start_kept_share(&self, start: &Start) -> Option<f64> {
        let alone = self.start(BE_ALONE).rate;
        (start.name != IDLE && alone > 0.0).then(|| start.rate / alone)
    }

    /// Part of best-effort work that networks kept.
    fn kept_share(&self, outcome: &Outcome) -> Option<f64> {
        self.bench.be_kept(outcome, self.named(BE_ALONE))
    }

    /// The device, and what its first part is.
    pub(crate) fn header(&self, device: &D) -> String {
        let (device, name) = (&self.chosen.args.device, device.info().name);
        let simulation = simulation(self.chosen);
        let (block, period) = (time::show(BLOCK), time::show(PERIOD));
        format!(
            "{device} ({name})\n{simulation}\n1. A request every {period}, next to best-effort blocks of {block}\n"
        )
    }

    /// The second part: its networks.
    pub(crate) fn networks(&self) -> String {
        let period = self.bench.period.as_secs_f64() * 1e3;
        let (rt, be) = (&self.bench.rt.name, self.be().join(", "));
        format!("2. {rt} every {period:.1} ms, next to {be} in closed loops\n")
    }

    fn be(&self) -> Vec<&str> {
        self.bench.be.iter().map(|named| named.name.as_str()).collect()
    }

    /// Start of requests next to long blocks, and best-effort work that is kept.
    pub(crate) fn starts_table(&self) -> Table {
        let mut table = table(&START_COLUMNS);
        for start in self.starts {
            let delays = &start.requests.start;
            let is_measured = !delays.is_empty();
            let shown = |value: f64| if is_measured { format!("{value:.1}") } else { "–".into() };
            table.add_row([
                shown_name(&start.name),
                shown(micros(delays, 0.5)),
                shown(micros(delays, 0.9)),
                shown(micros(delays, 1.0)),
                percent(self.start_kept_share(start)),
                delays.len().to_string(),
            ]);
        }
        table
    }

    /// Real-time latency and best-effort throughput under each scheduler. How many kernels were
    /// padded stands there if any was.
    pub(crate) fn schedulers(&self) -> Table {
        let alone = &self.named(RT_ALONE).requests.latency;
        let is_padded = self.outcomes.iter().any(|(_, outcome)| outcome.stats.padded_launches > 0);
        let mut header = SCHEDULER_COLUMNS.to_vec();
        header.extend(is_padded.then_some("padded"));
        let mut table = table(&header);
        for (name, outcome) in self.outcomes {
            let latency = &outcome.requests.latency;
            let ratio = |q| millis(latency, q) / millis(alone, q);
            let is_measured = !latency.is_empty();
            let rt = |value: f64| if is_measured { format!("{value:.2}") } else { "–".into() };
            let mut row = vec![
                if name == RT_ALONE { format!("{name} (alone)") } else { name.clone() },
                rt(millis(latency, 0.5)),
                rt(ratio(0.5)),
                rt(millis(latency, 0.99)),
                rt(ratio(0.99)),
                percent(self.kept_share(outcome)),
            ];
            row.extend(is_padded.then(|| outcome.stats.padded_launches.to_string()));
            table.add_row(row);
        }
        table
    }

    /// The figures that matter, in words. Starts by their 90th percentile: on a GPU half of the
    /// requests find a free place next to long blocks, whatever the scheduler.
    pub(crate) fn sentence(&self) -> String {
        let [deepest, rival] =
            [self.starts.last().expect("a level is the last one"), self.start(RIVAL)];
        let start = |start: &Start| brief(micros(&start.requests.start, 0.9));
        let kept = |share| percent(share).replace('–', "none");
        let [reef, priorities] = [REEF, RIVAL].map(|name| self.named(name));
        let alone = millis(&self.named(RT_ALONE).requests.latency, 0.5);
        let ratio = |outcome: &Outcome| millis(&outcome.requests.latency, 0.5) / alone;
        format!(
            "Next to blocks of {} nine of ten requests started within {}, with stream priorities within {}; \
             best-effort work kept {} and {}.\nNext to networks a request took {:.2} times as long as alone (p50), \
             with stream priorities {:.2} times; best-effort work kept {} and {}.{}",
            block_text(self.start(BE_ALONE).rate),
            start(deepest),
            start(rival),
            kept(self.start_kept_share(deepest)),
            kept(self.start_kept_share(rival)),
            ratio(reef),
            ratio(priorities),
            kept(self.kept_share(reef)),
            kept(self.kept_share(priorities)),
            if is_disturbed(alone, self.fastest()) { DISTURBED } else { "" },
        )
    }

    /// Smallest median of requests to networks, in milliseconds.
    fn fastest(&self) -> f64 {
        let all = self.outcomes.iter().map(|(_, outcome)| &outcome.requests.latency);
        let measured = all.filter(|latency| !latency.is_empty());
        measured.map(|latency| millis(latency, 0.5)).fold(f64::INFINITY, f64::min)
    }

    /// Everything as JSON.
    pub(crate) fn json(&self) -> Value {
        let rows = self.outcomes.iter().map(|(name, outcome)| {
            json!({
                "name": name,
                "rt_latency_us": quantiles(&outcome.requests.latency),
                "rt_start_delay_us": quantiles(&outcome.requests.start),
                "be_kept": self.kept_share(outcome),
                "rt_dropped": outcome.requests.dropped,
                "be_inferences_per_second": outcome.be_rates,
                "preemptions": outcome.stats.preemptions,
                "padded_launches": outcome.stats.padded_launches,
            })
        });
        let starts = self.starts.iter().map(|start| {
            json!({
                "name": start.name,
                "rt_start_delay_us": quantiles(&start.requests.start),
                "be_kept": self.start_kept_share(start),
                "preemptions": start.preemptions,
            })
        });
        json!({
            "block_us": BLOCK.as_micros() as u64,
            "starts": starts.collect::<Vec<_>>(),
            "rt": self.bench.rt.name,
            "rt_period_us": self.bench.period.as_micros() as u64,
            "be": self.be(),
            "measurements": rows.collect::<Vec<_>>(),
            "summary": self.sentence(),
        })
    }

    /// Draws how many requests started, and were done, within how long at most.
    pub(crate) fn plot(&self, path: &Path, device: &D) -> anyhow::Result<()> {
        let reef = &self.starts.last().expect("a level is the last one").name;
        let starts = self.starts.iter().map(|start| Series {
            name: shown_name(&start.name),
            values: &start.requests.start,
            is_main: start.name == *reef,
        });
        let latencies = self.outcomes.iter().map(|(name, outcome)| Series {
            name: name.clone(),
            values: &outcome.requests.latency,
            is_main: name == REEF,
        });
        let networks = self.be().join(", ");
        let panels = [
            Panel {
                caption: format!("Start of a request next to blocks of {}", time::show(BLOCK)),
                unit: ("µs", 1e3),
                series: starts.collect(),
            },
            Panel {
                caption: format!("Latency of {} next to {networks}", self.bench.rt.name),
                unit: ("ms", 1e6),
                series: latencies.collect(),
            },
        ];
        chart::shares(
            path,
            &format!("{} ({})", self.chosen.args.device, device.info().name),
            &panels,
        )
    }
}

fn quantiles(h: &Histogram<u64>) -> Value {
    json!({ "count": h.len(), "p50": micros(h, 0.5), "p90": micros(h, 0.9), "p99": micros(h, 0.99) })
}

/// Name of a row: a level is one of REEF.
fn shown_name(name: &str) -> String {
    name.strip_prefix(LEVEL).map_or_else(|| name.into(), |level| format!("{REEF}, level {level}"))
}

/// Time of the long blocks, by the number of their kernels per second without requests. On a busy
/// machine it is not the one that they were made for.
fn block_text(rate: f64) -> String {
    let (micros, wanted) = (1e6 / rate, BLOCK.as_secs_f64() * 1e6);
    if rate <= 0.0 || SAME_BLOCK.contains(&(micros / wanted)) {
        return time::show(BLOCK);
    }
    format!("{} instead of {}", brief(micros), time::show(BLOCK))
}

/// Returns whether requests alone were slower than they can be next to other work.
fn is_disturbed(alone: f64, fastest: f64) -> bool {
    alone > MAX_ALONE * fastest
}

/// A time with two or three digits, in the unit that has them.
fn brief(micros: f64) -> String {
    match micros {
        small if small < 1e3 => format!("{small:.0} µs"),
        medium if medium < 1e4 => format!("{:.1} ms", medium / 1e3),
        large => format!("{:.0} ms", large / 1e3),
    }
}

/// Note on the numbers if the device is software.
fn simulation(chosen: &Chosen<'_>) -> String {
    let (Some(size), true) = (chosen.sizes.size, chosen.simulated) else { return String::new() };
    format!(
        "A software device, so what is not asked for is small: images of {size} x {size}, {} a row, \
         one BE client.\nTimes are those of this machine's CPU, not of a GPU.\n",
        time::show(chosen.time)
    )
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".into(), |share| format!("{:.0} %", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_words_have_two_or_three_digits() {
        let said = [9.4, 32.4, 999.0, 3672.0, 10_994.0].map(brief);
        assert_eq!(said, ["9 µs", "32 µs", "999 µs", "3.7 ms", "11 ms"]);
    }

    /// README.md leaves the last column of the first table out.
    #[test]
    fn tables_of_the_documents_have_the_columns_of_the_demo() {
        let [starts, schedulers] = [START_COLUMNS.to_vec(), SCHEDULER_COLUMNS.to_vec()];
        let cells = |line: &'static str| -> Vec<&'static str> {
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
        };
        let heads = |page: &'static str| -> Vec<Vec<&'static str>> {
            page.lines().filter(|line| line.starts_with(" scheduler ")).map(cells).collect()
        };
        let found = heads(include_str!("../../../../../docs/start/demo.md"));
        let tables = [starts.clone(), schedulers.clone()];
        assert_eq!(found, [&tables[..], &tables[..]].concat());
        let found = heads(include_str!("../../../../../README.md"));
        assert_eq!(found, [starts[..5].to_vec(), schedulers]);
    }

    #[test]
    fn summary_names_a_block_of_another_length() {
        let said = [100.0, 92.0, 0.0, 909.0, 40.0].map(block_text);
        let other = ["1.1 ms instead of 10 ms", "25 ms instead of 10 ms"];
        assert_eq!(said, ["10 ms", "10 ms", "10 ms", other[0], other[1]]);
    }

    #[test]
    fn requests_slower_alone_show_a_busy_machine() {
        assert!(is_disturbed(57.15, 26.84));
        assert!(!is_disturbed(10.01, 9.42) && !is_disturbed(0.22, 0.22));
    }
}
