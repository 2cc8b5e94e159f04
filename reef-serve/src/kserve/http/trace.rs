//! `GET /reef/trace?seconds=N`: what happens in the next N seconds, for Perfetto.

use super::reply::{App, Reply};
use crate::error::{Error, Result};
use crate::net::identity::peer::Peer;
use crate::observe::recording::Recording;
use crate::server::Server;
use axum::Extension;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use std::time::{Duration, Instant};

/// Longest trace.
const MAX_TIME: Duration = Duration::from_secs(60);

/// How often what the device has noted is taken from it, and the daemon's end looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Records and answers. A client that goes away drops this, which ends the recording.
pub(super) async fn trace(
    State(server): App,
    Extension(peer): Extension<Peer>,
    uri: Uri,
) -> Reply<Response> {
    server.check_control(&peer)?;
    let time = asked(uri.query().unwrap_or_default())?;
    let mut recording = Recording::start(&server.observer, &server.nodes)?;
    record(&server, &mut recording, time).await;
    let written = tokio::task::spawn_blocking(move || recording.finish()).await;
    let text = written.map_err(|e| Error::system("a thread of the daemon", e))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

async fn record(server: &Server, recording: &mut Recording, time: Duration) {
    let end = Instant::now() + time;
    while !server.requests.is_closed() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(POLL_INTERVAL)).await;
        recording.collect();
    }
}

/// The time that a query asks for.
fn asked(query: &str) -> Result<Duration> {
    let wrong = || {
        let max = MAX_TIME.as_secs();
        Error::Invalid(format!("trace: ?seconds=N is wanted, more than 0 and at most {max}"))
    };
    let seconds = query.strip_prefix("seconds=").and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if time.is_zero() || time > MAX_TIME { Err(wrong()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_a_length() {
        assert_eq!(asked("seconds=60"), Ok(MAX_TIME));
        assert_eq!(asked("seconds=0.25"), Ok(Duration::from_millis(250)));
        for bad in ["", "seconds", "seconds=", "seconds=0", "seconds=-1", "seconds=60.1"] {
            assert!(asked(bad).is_err(), "{bad:?}");
        }
        for bad in ["seconds=NaN", "seconds=inf", "seconds=1e400", "minutes=1", "seconds=1&x=2"] {
            assert!(asked(bad).is_err(), "{bad:?}");
        }
    }
}
