//! Programs of other machines that use devices of this one.

use super::guests::Guest;
use crate::remote::servers::{Server, Session, find};
use serde::Serialize;
use std::time::Duration;

/// A session. Rates are of the interval, the rest is of its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RemoteSession {
    /// Number of the server's process, a point, and its number there.
    pub(crate) session: String,
    pub(crate) kind: String,
    /// Program and machine.
    pub(crate) client: String,
    pub(crate) tenant: Option<String>,
    /// `connected`, or `waiting` for its client.
    pub(crate) state: String,
    /// Its process on this machine, which may be a guest of a daemon.
    pub(crate) pid: Option<u32>,
    pub(crate) memory_bytes: u64,
    pub(crate) received_bytes_per_second: f64,
    pub(crate) sent_bytes_per_second: f64,
    pub(crate) round_trips_per_second: f64,
}

/// The sessions that are there now, with what each did since it was looked at before.
pub(super) fn sessions(before: &[Server], after: &[Server], time: Duration) -> Vec<RemoteSession> {
    let all = after.iter().flat_map(|server| server.sessions.iter().map(move |one| (server, one)));
    all.map(|(server, one)| session(server.pid, find(before, server.pid, one.id), one, time))
        .collect()
}

fn session(server: u32, old: Option<&Session>, now: &Session, time: Duration) -> RemoteSession {
    let rate = |of: fn(&Session) -> u64| {
        let grown = of(now).saturating_sub(old.map_or(0, of));
        grown as f64 / time.as_secs_f64().max(1e-9)
    };
    RemoteSession {
        session: format!("{server}.{}", now.id),
        kind: now.kind.clone(),
        client: now.client(),
        tenant: now.tenant.clone(),
        state: now.state().into(),
        pid: now.pid,
        memory_bytes: now.memory_bytes,
        received_bytes_per_second: rate(|of| of.received_bytes),
        sent_bytes_per_second: rate(|of| of.sent_bytes),
        round_trips_per_second: rate(|of| of.replies),
    }
}

/// Says of each guest that works for a program elsewhere which one that is.
pub(super) fn name_clients(guests: &mut [Guest], sessions: &[RemoteSession]) {
    for guest in guests {
        let is_its = |of: &&RemoteSession| of.pid.is_some_and(|pid| pid.to_string() == guest.pid);
        guest.client = sessions.iter().find(is_its).map(|of| of.client.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::view;
    use super::*;

    fn servers(times: u64) -> Vec<Server> {
        let text = format!(
            r#"[{{"pid": 5, "listening": ["127.0.0.1:7734"], "sessions": [{{
                "id": 3, "age_seconds": 1.5, "kind": "program", "tenant": "a", "program": "train",
                "device": null, "pid": 77, "class": null, "peer": "10.0.0.1:99",
                "memory_bytes": 64, "is_connected": false, "connections": 2,
                "received_frames": 1, "received_bytes": {}, "sent_frames": 1, "sent_bytes": 8,
                "replies": {}, "single_calls": 1, "replayed_calls": 3}}]}}]"#,
            100 * times,
            10 * times
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn session_has_its_rates_and_names_its_guest() {
        let (before, after) = (servers(1), servers(3));
        assert_eq!(after[0].sessions[0].replayed_part(), Some(0.75));
        let all = sessions(&before, &after, Duration::from_secs(2));
        let [one] = &all[..] else { panic!("{all:?}") };
        assert_eq!((&*one.session, &*one.client), ("5.3", "train @ 10.0.0.1:99"));
        assert_eq!((one.received_bytes_per_second, one.round_trips_per_second), (100.0, 10.0));
        assert_eq!((one.sent_bytes_per_second, &*one.state), (0.0, "waiting"));
        let mut guests = view().guests;
        assert_eq!(guests[0].pid, "77");
        name_clients(&mut guests, &all);
        assert_eq!(guests[0].client.as_deref(), Some("train @ 10.0.0.1:99"));
        name_clients(&mut guests, &[]);
        assert_eq!(guests[0].client, None);
    }
}
