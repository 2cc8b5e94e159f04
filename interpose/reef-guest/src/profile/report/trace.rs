//! Calls as events for Perfetto: the JSON of Chrome's trace format ("X" events, microseconds).

use super::super::api::Api;
use super::super::ring::Event;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Returns the file of a process. `zero` is the time of the recorder's clock at which it begins.
/// `name` returns the name of a kernel by the driver's handle.
pub fn json(
    events: &[Event],
    pid: u32,
    zero: u64,
    dropped: u64,
    name: impl Fn(u64) -> Option<String>,
) -> String {
    let mut text = format!(
        "{{\"otherData\":{{\"dropped\":{dropped}}},\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n\
         {{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"args\":{{\"name\":\"process {pid}\"}}}}"
    );
    let threads: BTreeSet<u32> = events.iter().map(|event| event.thread).collect();
    for thread in threads {
        let _ = write!(
            text,
            ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{thread},\"args\":{{\"name\":\"thread {thread}\"}}}}"
        ); // a string takes all
    }
    for Event { thread, call } in events {
        let known = if call.api == Api::Launch { name(call.what) } else { None };
        let shown = quoted(known.as_deref().unwrap_or(call.api.name()));
        let [ts, dur] =
            [call.start.saturating_sub(zero), call.nanos].map(|nanos| nanos as f64 / 1e3);
        let kind = if call.api == Api::Launch { "threads" } else { "bytes" };
        let _ = write!(
            text,
            ",\n{{\"ph\":\"X\",\"name\":{shown},\"cat\":\"{}\",\"pid\":{pid},\"tid\":{thread},\"ts\":{ts},\"dur\":{dur},\
             \"args\":{{\"stream\":\"{:#x}\",\"{kind}\":{}}}}}",
            call.api.name(),
            call.stream,
            call.amount
        ); // a string takes all
    }
    text.push_str("\n]}\n");
    text
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
