//! Numbers for Prometheus, in its text format 0.0.4.

use super::sessions::{Kind, Sessions, Sums};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// Kinds of sessions, in the order of their lines.
const KINDS: [Kind; 3] = [Kind::Program, Kind::Shared, Kind::Own];

impl Sessions {
    /// Returns all metrics. Waits as [`list`](Self::list) does.
    pub fn metrics(&self) -> String {
        let open = self.list();
        let (sums, refused) = self.sums(&open);
        let mut text = Text::default();
        let states = [(true, "connected"), (false, "waiting")];
        let cells = KINDS.into_iter().flat_map(|kind| states.map(|state| (kind, state)));
        let cells = cells.map(|(kind, (is_connected, state))| {
            let count = open.iter().filter(|view| {
                view.facts.kind == kind && view.counts.traffic.is_connected == is_connected
            });
            ([("kind", kind.label()), ("state", state)], count.count())
        });
        text.gauge("reef_remote_sessions", "Sessions, with a connection or waiting.", cells);
        let mut counter = |name: &str, help: &str, value: fn(&Sums) -> u64| {
            let of = |kind| sums.get(&kind).map_or(0, value);
            text.counter(name, help, KINDS.map(|kind| ([("kind", kind.label())], of(kind))));
        };
        counter("reef_remote_begun", "Sessions that have begun.", |sums| sums.begun);
        counter("reef_remote_received_frames", "Frames from clients.", |sums| {
            sums.traffic.received_frames
        });
        counter("reef_remote_received_bytes", "Bytes of frames from clients.", |sums| {
            sums.traffic.received_bytes
        });
        counter("reef_remote_sent_frames", "Frames to clients.", |sums| sums.traffic.sent_frames);
        counter("reef_remote_sent_bytes", "Bytes of frames to clients.", |sums| {
            sums.traffic.sent_bytes
        });
        counter("reef_remote_round_trips", "Replies to clients.", |sums| sums.traffic.replies);
        counter("reef_remote_reconnects", "Connections after the first ones.", |sums| {
            sums.reconnects
        });
        let calls = sums.get(&Kind::Program).copied().unwrap_or_default();
        let ways = [("single", calls.single_calls), ("replayed", calls.replayed_calls)];
        let ways = ways.map(|(way, calls)| ([("way", way)], calls));
        text.counter("reef_remote_calls", "Calls by themselves, and in records.", ways);
        let refused = refused.into_iter().map(|(why, count)| ([("reason", why.label())], count));
        text.counter("reef_remote_refused", "Clients without a session, by reason.", refused);
        let mut memory = BTreeMap::<&str, u64>::new();
        for view in &open {
            let tenant = view.facts.tenant.as_deref().unwrap_or_default();
            let bytes = memory.entry(tenant).or_default();
            *bytes = bytes.saturating_add(view.counts.memory_bytes);
        }
        let memory = memory.into_iter().map(|(tenant, bytes)| ([("tenant", tenant)], bytes));
        text.gauge("reef_remote_memory_bytes", "Memory that clients allocated.", memory);
        text.0
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn gauge<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        lines: impl IntoIterator<Item = ([(&'a str, &'a str); N], impl Display)>,
    ) {
        self.family(name, help, "gauge", lines);
    }

    fn counter<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        lines: impl IntoIterator<Item = ([(&'a str, &'a str); N], impl Display)>,
    ) {
        self.family(&format!("{name}_total"), help, "counter", lines);
    }

    fn family<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        lines: impl IntoIterator<Item = ([(&'a str, &'a str); N], impl Display)>,
    ) {
        let to = &mut self.0;
        // Writing to a string cannot fail.
        let _ = writeln!(to, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in lines {
            let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
            let _ = writeln!(to, "{name}{{{}}} {value}", labels.join(","));
        }
    }
}

/// Text in a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::refusal::Refusal;
    use super::super::sessions::{Facts, SessionCounts, Watched};
    use super::*;
    use reef_wire::Traffic;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    #[derive(Debug, Default)]
    struct Session {
        is_ended: AtomicBool,
        /// It says that it has done more than can be.
        is_liar: bool,
    }

    impl Watched for Session {
        fn counts(&self, _: Option<Instant>) -> SessionCounts {
            let mut traffic = Traffic::default();
            (traffic.received_bytes, traffic.replies, traffic.connections) = (100, 7, 3);
            let (peer, mut calls, mut memory_bytes) = ("10.0.0.1:5".into(), Some(2), 64);
            if self.is_liar {
                (calls, memory_bytes) = (Some(u64::MAX), u64::MAX);
                (traffic.received_bytes, traffic.replies) = (u64::MAX, u64::MAX);
            }
            SessionCounts {
                peer,
                memory_bytes,
                traffic,
                single_calls: calls,
                replayed_calls: calls,
            }
        }

        fn end(&self, _: &str) {
            self.is_ended.store(true, Ordering::Relaxed);
        }
    }

    fn facts() -> Facts {
        let tenant = Some("a \"b\"".into());
        let (program, kind) = ("a\x1b[2Jb".into(), Kind::Program);
        Facts { kind, tenant, program, device: None, pid: None, class: None }
    }

    /// A worker in its client's hand says any numbers: the others' are still told.
    #[test]
    fn sums_of_impossible_counts_are_the_highest() {
        let sessions = Sessions::default();
        let liar = Arc::new(Session { is_liar: true, ..Session::default() });
        drop(sessions.begin(facts(), liar.clone()));
        let _open = [liar, Arc::default()].map(|session| sessions.begin(facts(), session));
        let (text, most) = (sessions.metrics(), u64::MAX);
        for line in [
            format!("reef_remote_received_bytes_total{{kind=\"program\"}} {most}"),
            format!("reef_remote_calls_total{{way=\"single\"}} {most}"),
            format!("reef_remote_memory_bytes{{tenant=\"a \\\"b\\\"\"}} {most}"),
            "reef_remote_reconnects_total{kind=\"program\"} 6".into(),
        ] {
            assert!(text.lines().any(|have| have == line), "{line}:\n{text}");
        }
    }

    /// Sums stay when sessions end; what is there now does not.
    #[test]
    fn sums_of_ended_sessions_stay() {
        let sessions = Sessions::default();
        let session = Arc::new(Session::default());
        let one = sessions.begin(facts(), session.clone());
        let two = sessions.begin(facts(), session.clone());
        assert_eq!(sessions.list()[0].facts.program, "a\u{fffd}[2Jb", "no escape sequences");
        sessions.refuse(Refusal::Token);
        let text = sessions.metrics();
        for line in [
            "reef_remote_sessions{kind=\"program\",state=\"waiting\"} 2",
            "reef_remote_sessions{kind=\"own\",state=\"connected\"} 0",
            "# TYPE reef_remote_received_bytes_total counter",
            "reef_remote_received_bytes_total{kind=\"program\"} 200",
            "reef_remote_round_trips_total{kind=\"program\"} 14",
            "reef_remote_reconnects_total{kind=\"program\"} 4",
            "reef_remote_calls_total{way=\"replayed\"} 4",
            "reef_remote_refused_total{reason=\"token\"} 1",
            "reef_remote_memory_bytes{tenant=\"a \\\"b\\\"\"} 128",
        ] {
            assert!(text.lines().any(|have| have == line), "{line}:\n{text}");
        }
        drop(one);
        assert!(!sessions.end(1, "") && !session.is_ended.load(Ordering::Relaxed));
        assert!(sessions.end(2, "") && session.is_ended.load(Ordering::Relaxed));
        drop(two);
        let text = sessions.metrics();
        for line in [
            "reef_remote_sessions{kind=\"program\",state=\"waiting\"} 0",
            "reef_remote_received_bytes_total{kind=\"program\"} 200",
            "reef_remote_begun_total{kind=\"program\"} 2",
        ] {
            assert!(text.lines().any(|have| have == line), "{line}:\n{text}");
        }
        assert!(sessions.list().is_empty());
    }
}
