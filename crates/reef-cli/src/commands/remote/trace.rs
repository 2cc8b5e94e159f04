//! `reef remote trace`: the frames of sessions in time, for Perfetto.

use crate::remote::servers::{Server, Session, find, servers};
use crate::report::checks::check_file;
use crate::report::output::{print, save};
use crate::report::time;
use anyhow::{Result, bail};
use reef::perfetto::{self, Track};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Time from one poll of the servers to the next: the resolution of the trace.
const INTERVAL: Duration = Duration::from_millis(20);
/// Most time.
const MAX_TIME: Duration = Duration::from_secs(600);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Time to trace, such as 500ms.
    #[arg(long, value_parser = time::parse, default_value = "1s")]
    time: Duration,
    /// File to write, for ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE", default_value = "trace.json")]
    out: PathBuf,
    /// Folder of the servers' control sockets [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
}

/// Times of two polls, since the begin of the trace.
type Interval = (Duration, Duration);

pub(crate) fn run(args: &Args) -> Result<()> {
    time::check("--time", args.time, MAX_TIME)?;
    check_file(&args.out)?;
    let read = || servers(args.socket_dir.as_deref());
    let (begin, mut before, mut events) = (Instant::now(), read(), Vec::new());
    if before.is_empty() {
        bail!("no server of this user runs here: `reef remote serve` starts one");
    }
    let mut since = begin.elapsed();
    name(&before, &[], &mut events);
    while since < args.time {
        thread::sleep(INTERVAL);
        let (after, now) = (read(), begin.elapsed());
        name(&after, &before, &mut events);
        add(&before, &after, (since, now), &mut events);
        (before, since) = (after, now);
    }
    let mut text = Vec::new();
    let count = events.len();
    perfetto::write(&mut text, events)?;
    save(&args.out, text)?;
    let shown = args.out.display();
    print(format_args!("{shown}: {count} events; open it in ui.perfetto.dev"))
}

fn track(server: &Server, session: &Session) -> Track {
    Track { process: server.pid, thread: u32::try_from(session.id).unwrap_or(u32::MAX) }
}

/// Names the tracks of sessions that were not there before.
fn name(all: &[Server], before: &[Server], events: &mut Vec<Value>) {
    for server in all {
        if !before.iter().any(|one| one.pid == server.pid) {
            events
                .push(perfetto::process(server.pid, &format!("reef remote serve {}", server.pid)));
        }
        for one in server.sessions.iter().filter(|one| find(before, server.pid, one.id).is_none()) {
            let text = format!("session {}.{}: {}", server.pid, one.id, one.client());
            events.push(perfetto::thread(track(server, one), &text));
        }
    }
}

/// Adds a span for each session that did something in an interval, or that was without connection.
fn add(before: &[Server], after: &[Server], times: Interval, events: &mut Vec<Value>) {
    let (from, to) = times;
    for server in after {
        for now in &server.sessions {
            let Some(old) = find(before, server.pid, now.id) else { continue };
            let grown = |of: fn(&Session) -> u64| of(now).saturating_sub(of(old));
            let frames = grown(|of| of.received_frames).saturating_add(grown(|of| of.sent_frames));
            let text = match (now.is_connected, frames) {
                (false, _) => "waiting for its client".into(),
                (true, 0) => continue,
                (true, frames) => format!("{frames} frames"),
            };
            let about = json!({
                "round_trips": grown(|of| of.replies),
                "received_bytes": grown(|of| of.received_bytes),
                "sent_bytes": grown(|of| of.sent_bytes),
                "memory_bytes": now.memory_bytes,
            });
            let track = track(server, now);
            events.push(perfetto::slice(track, &now.kind, &text, from, to - from, &about));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(times: u64, is_connected: bool) -> Vec<Server> {
        let server = json!([{"pid": 5, "listening": [], "sessions": [{
            "id": 3, "age_seconds": 1.5, "kind": "program", "tenant": null, "program": "train",
            "device": null, "pid": 77, "class": null, "peer": "10.0.0.1:99",
            "memory_bytes": 64, "is_connected": is_connected, "connections": 1,
            "received_frames": 10 * times, "received_bytes": 100 * times, "sent_frames": 2,
            "sent_bytes": 8, "replies": times, "single_calls": 1, "replayed_calls": 0}]}]);
        serde_json::from_value(server).unwrap()
    }

    #[test]
    fn session_has_spans_where_frames_went() {
        let at = |millis| Duration::from_millis(millis);
        let mut events = Vec::new();
        let [one, two] = [1, 4].map(|times| servers(times, true));
        name(&one, &[], &mut events);
        name(&two, &one, &mut events);
        assert_eq!(events.len(), 2, "names come once: {events:?}");
        assert!(events[1].to_string().contains("session 5.3: train @ 10.0.0.1:99"), "{events:?}");
        events.clear();
        add(&one, &two, (at(20), at(41)), &mut events);
        add(&two, &two, (at(41), at(60)), &mut events);
        let [span] = &events[..] else { panic!("nothing went in the second one: {events:?}") };
        assert_eq!((&span["name"], &span["args"]["round_trips"]), (&json!("30 frames"), &json!(3)));
        assert_eq!((span["ts"].as_f64(), span["dur"].as_f64()), (Some(20e3), Some(21e3)));
        add(&two, &servers(4, false), (at(60), at(80)), &mut events);
        assert_eq!(events[1]["name"], "waiting for its client");
        let mut most = two.clone(); // as a worker in its client's hand may say
        let session = &mut most[0].sessions[0];
        (session.received_frames, session.sent_frames) = (u64::MAX, u64::MAX);
        (session.single_calls, session.replayed_calls) = (Some(u64::MAX), Some(u64::MAX));
        assert_eq!(session.replayed_part(), Some(0.5));
        add(&two, &most, (at(80), at(100)), &mut events);
        assert_eq!(events[2]["name"], format!("{} frames", u64::MAX));
    }
}
