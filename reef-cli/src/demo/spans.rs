//! Traces for Perfetto (ui.perfetto.dev) and Chrome: the JSON trace event format.

use reef::{Priority, Span};
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes one row per unit, with a slice for each block.
pub(crate) fn write(path: &Path, process: &str, spans: &[Span]) -> std::io::Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    writeln!(file, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    write!(file, "{}", name("process_name", 0, process))?;
    for unit in 0..spans.iter().map(|span| span.unit + 1).max().unwrap_or(0) {
        write!(file, ",\n{}", name("thread_name", unit, &format!("unit {unit}")))?;
    }
    for span in spans {
        write!(file, ",\n{}", slice(span))?;
    }
    writeln!(file, "\n]}}")?;
    file.flush()
}

fn name(what: &str, unit: u32, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": 1, "tid": unit, "args": { "name": name } })
}

fn slice(span: &Span) -> Value {
    let class = match (span.priority, span.padding) {
        (Priority::RealTime, _) => "RT",
        (Priority::BestEffort, false) => "BE",
        (Priority::BestEffort, true) => "padding",
    };
    let micros = |time: std::time::Duration| time.as_nanos() as f64 / 1e3;
    json!({
        "ph": "X",
        "name": format!("{class} {}", span.name),
        "cat": class,
        "cname": if span.stopped { "terrible" } else if class == "RT" { "good" } else { "generic_work" },
        "pid": 1,
        "tid": span.unit,
        "ts": micros(span.begin),
        "dur": micros(span.end - span.begin),
        "args": {
            "queue": span.queue,
            "command": span.seq.0,
            "block": span.block,
            "stopped": span.stopped,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_trace_is_json_with_a_slice_for_each_block() {
        let span = Span {
            unit: 1,
            queue: 2,
            priority: Priority::RealTime,
            padding: false,
            seq: reef::Seq(3),
            name: "conv \"7\"".into(),
            block: 4,
            begin: Duration::from_nanos(1500),
            end: Duration::from_nanos(2750),
            stopped: false,
        };
        let path = std::env::temp_dir().join(format!("reef-trace-{}.json", std::process::id()));
        write(&path, "test", &[span]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 1 + 2 + 1);
        let slice = events.last().unwrap();
        assert_eq!((slice["ts"].as_f64(), slice["dur"].as_f64()), (Some(1.5), Some(1.25)));
        assert_eq!(slice["tid"], 1);
    }
}
