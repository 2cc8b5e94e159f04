//! The changing part of the page.

use super::chart::{Chart, Line};
use super::history::{History, Preempted, Second, Work, growth};
use super::markup::Markup;
use super::sample::{ModelUse, ProgramUse, Sample};
use crate::class::Class;
use crate::observe::devices::DeviceSnapshot;
use crate::observe::stats::Sum;
use crate::residency::facts::Residency;
use std::time::{Duration, UNIX_EPOCH};

/// Maximum number of rows of a table.
const MAX_ROWS: usize = 64;

/// Returns the changing part of the page, as HTML.
pub(super) fn state(history: &History) -> String {
    let mut out = Markup::default();
    let Some(now) = &history.now else {
        out.raw("<p>starting</p>");
        return out.into_string();
    };
    head(now, &mut out);
    charts(history, &mut out);
    table(&mut out, "Devices", DEVICES, &now.devices, device);
    table(&mut out, "Models", MODELS, &now.models, |one, out| model(history, one, out));
    let programs = busiest(history, now);
    table(&mut out, "Programs and clients", PROGRAMS, &programs, |one, out| program(one, out));
    let log: Vec<_> = history.log.iter().collect();
    table(&mut out, "Preemptions", LOG, &log, |entry, out| preempted(entry, out));
    out.into_string()
}

const DEVICES: &[&str] = &["device", "state", "units", "open", "memory", "preemptions"];
const MODELS: &[&str] =
    &["model", "version", "memory", "requests/s", "mean", "waiting", "failed", "on demand"];
const PROGRAMS: &[&str] = &["name", "class", "state", "memory", "device %", "held %"];
const LOG: &[&str] = &["time", "work", "preempted"];

fn head(now: &Sample, out: &mut Markup) {
    let (models, connections) = (now.models.len(), now.connections);
    out.raw("<p>").text(clock(now.time)).raw(" UTC · models ").text(models);
    out.raw(" · connections ").text(connections).raw("</p>");
}

fn charts(history: &History, out: &mut Markup) {
    let each = |value: fn(&Second) -> Option<f64>| history.seconds.iter().map(value).collect();
    let line = |style, name, values| Line { style, name, values };
    let latency = vec![
        line("rt", "p99", each(|second| second.rt.map(|(_, p99)| p99.as_secs_f64() * 1e3))),
        line("low", "p50", each(|second| second.rt.map(|(p50, _)| p50.as_secs_f64() * 1e3))),
    ];
    let kept = vec![line("rt", "ran", each(|second| second.kept.map(|part| 100.0 * part)))];
    let busy = vec![line("rt", "busy", each(|second| second.busy.map(|part| 100.0 * part)))];
    let stops = vec![line("rt", "per second", each(|second| Some(second.preemptions as f64)))];
    out.raw("<section class=\"charts\">");
    for (title, top, show, lines) in [
        ("Latency of real-time requests", None, milliseconds as fn(f64) -> String, latency),
        ("Best-effort work kept", Some(100.0), percent, kept),
        ("Devices busy", Some(100.0), percent, busy),
        ("Preemptions", None, number, stops),
    ] {
        Chart { title, top, show, lines }.draw(out);
    }
    out.raw("</section>");
}

/// Writes a table, or that it has no rows.
fn table<T>(
    out: &mut Markup,
    title: &'static str,
    columns: &[&'static str],
    rows: &[T],
    mut row: impl FnMut(&T, &mut Markup),
) {
    out.raw("<section><h2>").raw(title).raw("</h2>");
    if rows.is_empty() {
        out.raw("<p class=\"none\">none</p></section>");
        return;
    }
    out.raw("<table><thead><tr>");
    for column in columns {
        out.raw("<th>").raw(column).raw("</th>");
    }
    out.raw("</tr></thead><tbody>");
    for one in rows.iter().take(MAX_ROWS) {
        out.raw("<tr>");
        row(one, out);
        out.raw("</tr>");
    }
    out.raw("</tbody></table>");
    if let Some(more) = rows.len().checked_sub(MAX_ROWS).filter(|more| *more > 0) {
        out.raw("<p class=\"none\">and ").text(more).raw(" more</p>");
    }
    out.raw("</section>");
}

fn cell(out: &mut Markup, text: impl std::fmt::Display) {
    out.raw("<td>").text(text).raw("</td>");
}

fn name_cell(out: &mut Markup, name: &str) {
    out.raw("<td>").name(name).raw("</td>");
}

fn device(one: &DeviceSnapshot, out: &mut Markup) {
    name_cell(out, &one.name);
    cell(out, if one.is_up { "works" } else { "lost" });
    cell(out, one.units);
    cell(out, one.load);
    cell(out, bytes(one.memory));
    cell(out, one.stats.preemptions);
}

fn model(history: &History, one: &ModelUse, out: &mut Markup) {
    let ModelUse { figures, bytes: size, residency } = one;
    let is_same = |then: &&ModelUse| {
        then.figures.model == figures.model && then.figures.version == figures.version
    };
    let then = history.before.iter().flat_map(|before| &before.models).find(is_same);
    let then = then.map_or(figures.numbers.success, |then| then.figures.numbers.success);
    let time = interval(history).as_secs_f64();
    let served = figures.numbers.success.count.saturating_sub(then.count);
    name_cell(out, &figures.model);
    cell(out, figures.version);
    cell(out, bytes(*size));
    cell(out, format_args!("{:.1}", if time > 0.0 { served as f64 / time } else { 0.0 }));
    cell(out, mean(figures.numbers.success, then));
    cell(out, figures.waiting);
    cell(out, figures.numbers.fail.count);
    cell(out, on_demand(residency));
}

/// Returns the states of processes that are on the GPU on demand, and their returns.
fn on_demand(all: &[Residency]) -> String {
    let state = |one: &Residency| match one.bytes {
        Some(size @ 1..) => format!("{} {}", one.state.name(), bytes(size)),
        _ => one.state.name().to_owned(),
    };
    let states: Vec<String> = all.iter().map(state).collect();
    let returns: u64 = all.iter().map(|one| one.returns).sum();
    let last = all.iter().filter_map(|one| one.returned).max();
    let last = last.and_then(|last| last.duration_since(UNIX_EPOCH).ok()).map(clock);
    match last {
        _ if all.is_empty() => "–".into(),
        None => states.join(", "),
        Some(last) => format!("{}, {returns} returns, the last at {last}", states.join(", ")),
    }
}

/// Returns the mean time of the requests since `then`.
fn mean(now: Sum, then: Sum) -> String {
    let count = now.count.saturating_sub(then.count);
    let time = now.time.saturating_sub(then.time).as_secs_f64();
    if count == 0 { "–".into() } else { milliseconds(1e3 * time / count as f64) }
}

/// A program with its parts of the last second: that it ran, and that it was held.
struct Busy<'a> {
    program: &'a ProgramUse,
    parts: (f64, f64),
}

/// Returns all programs, those that used the devices most first.
fn busiest<'a>(history: &History, now: &'a Sample) -> Vec<Busy<'a>> {
    let time = interval(history).as_secs_f64();
    let part = |grown: Duration| if time > 0.0 { grown.as_secs_f64() / time } else { 0.0 };
    let busy = |program: &'a ProgramUse| {
        let (ran, held) = growth(history.before.as_ref(), program);
        Busy { program, parts: (part(ran), part(held)) }
    };
    let mut all: Vec<_> = now.programs.iter().map(busy).collect();
    all.sort_by(|a, b| (b.parts.0 + b.parts.1).total_cmp(&(a.parts.0 + a.parts.1)));
    all
}

fn program(Busy { program, parts: (ran, held) }: &Busy<'_>, out: &mut Markup) {
    name_cell(out, &program.name);
    let class = if program.class == Class::RealTime { "rt" } else { "be" };
    out.raw("<td class=\"").raw(class).raw("\">").raw(class).raw("</td>");
    cell(out, state_of(program, *ran));
    cell(out, program.memory.map_or_else(|| "–".into(), bytes));
    cell(out, percent(100.0 * ran));
    cell(out, percent(100.0 * held));
}

fn state_of(program: &ProgramUse, ran: f64) -> &'static str {
    match program.is_held {
        Some(true) => "held",
        _ if ran > 0.0 => "runs",
        _ => "idle",
    }
}

fn preempted(Preempted { time, what }: &Preempted, out: &mut Markup) {
    cell(out, clock(*time));
    match what {
        Work::Device { name, preemptions, requests } => {
            out.raw("<td>requests on ").name(name).raw("</td>");
            cell(out, format_args!("{preemptions} ×; {requests} real-time tasks ended"));
        }
        Work::Program { name, held } => {
            name_cell(out, name);
            cell(out, format_args!("held {}", milliseconds(held.as_secs_f64() * 1e3)));
        }
    }
}

/// Returns the time between the last two samples.
fn interval(history: &History) -> Duration {
    let (Some(before), Some(now)) = (&history.before, &history.now) else {
        return Duration::ZERO;
    };
    now.taken.saturating_duration_since(before.taken)
}

/// Returns the time of day.
fn clock(time: Duration) -> String {
    let second = time.as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

fn milliseconds(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0} ms"),
        value if value >= 1.0 => format!("{value:.1} ms"),
        value => format!("{value:.3} ms"),
    }
}

fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

fn number(value: f64) -> String {
    format!("{value:.0}")
}

fn bytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::super::history::tests::sample;
    use super::*;
    use crate::observe::latency::Latencies;
    use crate::observe::stats::Numbers;
    use crate::observe::triton::ModelFigures;
    use crate::residency::facts::{ProcessName, ResidencyState};

    const HOSTILE: &str = "</td><img src=x onerror=alert(1)>'\"\r\n\ndata: x";

    fn hostile(models: usize) -> String {
        let (latencies, mut history) = (Latencies::default(), History::default());
        for at in 1..3 {
            let mut sample = sample(at, HOSTILE, &latencies);
            sample.devices[0].name = HOSTILE.into();
            let figures = ModelFigures {
                model: HOSTILE.into(),
                version: 1,
                numbers: Numbers::default(),
                batch: 1,
                executions: 0,
                waiting: 0,
            };
            sample.models = vec![ModelUse { figures, bytes: 1, residency: Vec::new() }; models];
            history.add(sample);
        }
        state(&history)
    }

    #[test]
    fn hostile_names_add_no_element_and_no_line() {
        let html = hostile(1);
        assert_eq!(
            html.matches("&lt;/td&gt;&lt;img src=x onerror=alert(1)&gt;").count(),
            5,
            "{html}"
        );
        assert!(!html.contains("<img") && !html.contains(['\n', '\r']), "{html}");
        let cells = html.matches("<td").count();
        assert_eq!(cells, html.matches("</td>").count());
        assert_eq!(cells, 6 + 8 + 6 + 2 * 3, "of a device, a model, a program, two of the log");
    }

    #[test]
    fn process_on_demand_has_its_state_and_returns() {
        let (model, class, device) = ("m".into(), Class::RealTime, "cuda:0".into());
        let name = ProcessName { model, version: 1, class, instance: 0, device };
        let (bytes, return_time, returned) = (Some(2 << 20), Duration::ZERO, None);
        let state = ResidencyState::Resident;
        let (returns, starts) = (0, Default::default());
        let mut one = Residency { name, state, bytes, returns, return_time, returned, starts };
        assert_eq!(on_demand(&[]), "–");
        assert_eq!(on_demand(std::slice::from_ref(&one)), "resident 2 MiB");
        (one.state, one.bytes, one.returns) = (ResidencyState::Away, Some(0), 3);
        one.returned = Some(UNIX_EPOCH + Duration::from_secs(3_723));
        let want = "away, 3 returns, the last at 01:02:03";
        assert_eq!(on_demand(std::slice::from_ref(&one)), want);
    }

    #[test]
    fn rows_above_the_maximum_are_counted_only() {
        let html = hostile(MAX_ROWS + 3);
        assert!(html.contains("and 3 more"), "{html}");
        assert!(html.len() < super::super::feed::MAX_EVENT_BYTES, "{} bytes", html.len());
    }

    #[test]
    fn page_before_the_first_sample_says_so() {
        assert_eq!(state(&History::default()), "<p>starting</p>");
    }

    #[test]
    fn values_have_their_units() {
        assert_eq!(clock(Duration::from_secs(86_400 + 3_723)), "01:02:03");
        let shown = [0.0456, 4.56, 456.0].map(milliseconds);
        assert_eq!(shown, ["0.046 ms", "4.6 ms", "456 ms"]);
        assert_eq!(bytes((3 << 20) + 1), "4 MiB");
    }
}
