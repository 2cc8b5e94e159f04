//! Bodies that come with requests that are refused.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::time::Duration;

/// How long a client that sends what isn't wanted is listened to, so that it can hear why it is
/// refused.
const LINGER: Duration = Duration::from_millis(500);

/// Takes up to `max` bytes from a client that would otherwise be cut off while it sends, without
/// its answer. One that asked before it sends hears at once.
pub(super) async fn discard(headers: &HeaderMap, body: Body, max: usize) {
    if !headers.contains_key(header::EXPECT) {
        let _ = tokio::time::timeout(LINGER, read(body, max)).await; // it may say nothing
    }
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
