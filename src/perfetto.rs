//! The trace event format of Perfetto (ui.perfetto.dev) and Chrome: events as JSON.
//!
//! A *process* is a group of tracks, a *thread* one track. Times are in microseconds from where the
//! trace begins.

use reef_core::{Priority, Span};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

/// One track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// The group that it belongs to.
    pub process: u32,
    /// Its number there.
    pub thread: u32,
}

/// Writes a whole trace.
///
/// # Errors
///
/// Returns the errors of `to`.
pub fn write(to: &mut impl Write, events: impl IntoIterator<Item = Value>) -> io::Result<()> {
    write!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut between = "\n";
    for event in events {
        write!(to, "{between}{event}")?;
        between = ",\n";
    }
    writeln!(to, "\n]}}")
}

/// Names a group of tracks.
pub fn process(process: u32, name: &str) -> Value {
    let args = json!({ "name": name });
    json!({ "ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": args })
}

/// Names a track.
pub fn thread(track: Track, name: &str) -> Value {
    event("M", "thread_name", track, json!({ "args": { "name": name } }))
}

/// Event that lasts, with a category and arguments. Slices of one track lie inside of each other,
/// or don't overlap.
pub fn slice(
    track: Track,
    category: &str,
    name: &str,
    begin: Duration,
    time: Duration,
    args: &Value,
) -> Value {
    let (ts, dur) = (micros(begin), micros(time));
    event("X", name, track, json!({ "cat": category, "ts": ts, "dur": dur, "args": args }))
}

/// Event at one point in time.
pub fn instant(track: Track, name: &str, at: Duration) -> Value {
    event("i", name, track, json!({ "s": "t", "ts": micros(at) }))
}

/// Event that lasts and may overlap with others of its name; `id` is its own.
pub fn overlapping(
    track: Track,
    name: &str,
    id: usize,
    begin: Duration,
    end: Duration,
) -> [Value; 2] {
    [("b", begin), ("e", end)]
        .map(|(ph, at)| event(ph, name, track, json!({ "cat": name, "id": id, "ts": micros(at) })))
}

/// The blocks that ran on a device, a track for each unit; `begin` is where the trace begins.
pub fn blocks(
    process: u32,
    spans: &[Span],
    begin: Duration,
) -> impl Iterator<Item = Value> + use<'_> {
    let units: BTreeSet<u32> = spans.iter().map(|span| span.unit).collect();
    let track = move |thread| Track { process, thread };
    let names = units.into_iter().map(move |unit| thread(track(unit), &format!("unit {unit}")));
    names.chain(spans.iter().map(move |span| block(track(span.unit), span, begin)))
}

fn block(track: Track, span: &Span, begin: Duration) -> Value {
    let class = match (span.priority, span.padding) {
        (Priority::RealTime, _) => "RT",
        (Priority::BestEffort, false) => "BE",
        (Priority::BestEffort, true) => "padding",
    };
    let args = json!({
        "queue": span.queue,
        "command": span.seq.0,
        "block": span.block,
        "stopped": span.stopped,
    });
    let name = format!("{class} {}", span.name);
    let (begin, time) = (span.begin.saturating_sub(begin), span.end.saturating_sub(span.begin));
    let mut slice = slice(track, class, &name, begin, time, &args);
    let colour = match (span.stopped, class) {
        (true, _) => "terrible",
        (false, "RT") => "good",
        (false, _) => "generic_work",
    };
    slice["cname"] = colour.into();
    slice
}

fn event(phase: &str, name: &str, track: Track, more: Value) -> Value {
    let Track { process, thread } = track;
    let mut event = json!({ "ph": phase, "name": name, "pid": process, "tid": thread });
    if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
        event.extend(more);
    }
    event
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACK: Track = Track { process: 1, thread: 2 };

    fn nanos(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }

    #[test]
    fn trace_is_json_and_may_be_empty() {
        let read = |events: Vec<Value>| {
            let mut bytes = Vec::new();
            write(&mut bytes, events).unwrap();
            serde_json::from_slice::<Value>(&bytes).unwrap()["traceEvents"].clone()
        };
        assert_eq!(read(Vec::new()), json!([]));
        let both = vec![process(1, "a \"device\""), instant(TRACK, "now", nanos(1500))];
        let events = read(both);
        assert_eq!(events[0]["args"]["name"], "a \"device\"");
        let want = json!({ "ph": "i", "name": "now", "pid": 1, "tid": 2, "s": "t", "ts": 1.5 });
        assert_eq!(events[1], want);
    }

    #[test]
    fn overlapping_event_has_begin_and_end_with_its_id() {
        let [begin, end] = overlapping(TRACK, "queue", 7, nanos(1000), nanos(3000));
        assert_eq!(
            (&begin["ph"], &begin["id"], &begin["ts"]),
            (&json!("b"), &json!(7), &json!(1.0))
        );
        assert_eq!((&end["ph"], &end["id"], &end["ts"]), (&json!("e"), &json!(7), &json!(3.0)));
    }

    #[test]
    fn block_times_count_from_the_trace_and_units_have_names() {
        let mut span = Span::new("conv \"7\"", 1, nanos(2500), nanos(3750));
        span.stopped = true;
        let mut before = span.clone();
        (before.begin, before.end) = (nanos(500), nanos(700));
        let events: Vec<_> = blocks(3, &[span, before], nanos(1000)).collect();
        assert_eq!(events.len(), 3);
        assert_eq!((&events[0]["ph"], &events[0]["tid"]), (&json!("M"), &json!(1)));
        assert_eq!((&events[1]["ts"], &events[1]["dur"]), (&json!(1.5), &json!(1.25)));
        assert_eq!(events[1]["cname"], "terrible");
        assert_eq!((&events[2]["ts"], &events[2]["pid"]), (&json!(0.0), &json!(3)));
    }
}
