//! Bodies of refused requests.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::time::Duration;

/// Time for which a refused client may go on sending, so that it reads the reason. Its machine may
/// be busy, and the daemon's.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads and discards up to `max` bytes of a client that would otherwise be cut off while it sends,
/// before it reads its answer. A client that waits for `100 Continue` gets the answer at once.
pub(super) async fn discard(headers: &HeaderMap, body: Body, max: usize) {
    if !headers.contains_key(header::EXPECT) {
        discard_rest(body, max).await;
    }
}

/// Reads and discards up to `max` bytes of the rest of a body, whose client sends already.
pub(super) async fn discard_rest(body: Body, max: usize) {
    // The client may send nothing.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, read(body, max)).await;
}

async fn read(mut body: Body, max: usize) {
    let mut left = max;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, |data| data.len());
        match left.checked_sub(bytes) {
            Some(less) => left = less,
            None => return,
        }
    }
}
