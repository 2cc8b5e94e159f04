//! `GET /reef/trace?seconds=N`: records a trace of the next N seconds, for Perfetto.

use super::reply::{App, Reply};
use crate::error::{Error, Result};
use crate::net::identity::peer::Peer;
use crate::observe::recording::Recording;
use crate::server::Server;
use axum::Extension;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Maximum length of a trace.
const MAX_TIME: Duration = Duration::from_secs(60);

/// Interval at which the devices' spans are collected and the daemon's end is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Records a trace and returns it.
pub(super) async fn trace(
    State(server): App,
    Extension(peer): Extension<Peer>,
    uri: Uri,
) -> Reply<Response> {
    server.check_control(&peer)?;
    let time = duration_in(uri.query().unwrap_or_default())?;
    let text = record(server, time).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Records a trace of this length on a blocking thread, because devices may answer late, or never.
/// If the client disconnects, this is dropped, which ends the recording.
///
/// # Errors
///
/// `Exists` if another trace is in progress.
pub(crate) async fn record(server: Arc<Server>, time: Duration) -> Result<Vec<u8>> {
    let (_client, client) = channel();
    let written = tokio::task::spawn_blocking(move || record_for(&client, &server, time)).await;
    written.unwrap_or_else(|e| Err(Error::system("a thread that writes a trace", e)))
}

/// Records a trace for a client that drops the other end if it disconnects.
fn record_for(client: &Receiver<()>, server: &Server, time: Duration) -> Result<Vec<u8>> {
    let mut recording = Recording::start(&server.observer, &server.nodes)?;
    let end = Instant::now() + time;
    while !server.requests.is_closed() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let told = client.recv_timeout(left.min(POLL_INTERVAL));
        if told == Err(RecvTimeoutError::Disconnected) {
            return Err(Error::Unavailable("cancelled: the client disconnected".into()));
        }
        recording.collect();
    }
    Ok(recording.finish())
}

/// Parses the length in a query.
fn duration_in(query: &str) -> Result<Duration> {
    let wrong = || {
        let max = MAX_TIME.as_secs();
        Error::Invalid(format!("trace: ?seconds=N must be greater than 0 and at most {max}"))
    };
    let seconds = query.strip_prefix("seconds=").and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if time.is_zero() || time > MAX_TIME { Err(wrong()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_length_out_of_range_is_refused() {
        assert_eq!(duration_in("seconds=60"), Ok(MAX_TIME));
        assert_eq!(duration_in("seconds=0.25"), Ok(Duration::from_millis(250)));
        for bad in ["", "seconds", "seconds=", "seconds=0", "seconds=-1", "seconds=60.1"] {
            assert!(duration_in(bad).is_err(), "{bad:?}");
        }
        for bad in ["seconds=NaN", "seconds=inf", "seconds=1e400", "minutes=1", "seconds=1&x=2"] {
            assert!(duration_in(bad).is_err(), "{bad:?}");
        }
    }
}
