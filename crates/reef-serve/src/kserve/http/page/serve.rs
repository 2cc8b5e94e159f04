//! Routes of the page. All are read-only.

use super::feed::{Feed, MAX_EVENT_BYTES};
use crate::kserve::browser_guard::PAGE_PATHS;
use crate::kserve::failure::Failure;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use std::sync::Arc;

/// Mark in the page's text that its changing part replaces.
const STATE: &str = "<!-- state -->";

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A browser loads the page's own script and style, connects to its own stream, and does nothing
/// else: no inline script, no frame around it, no form.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the routes, of any state.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(feed: Arc<Feed>) -> Router<S> {
    let [page_path, style, script, events_path] = PAGE_PATHS;
    Router::new()
        .route(page_path, get(page))
        .route(style, get(|| async { typed("text/css; charset=utf-8", STYLE) }))
        .route(script, get(|| async { typed("text/javascript; charset=utf-8", SCRIPT) }))
        .route(events_path, get(events))
        .route_layer(map_response(protect))
        .with_state(feed)
}

fn typed(kind: &'static str, text: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, kind)], text.into()).into_response()
}

/// Returns the page with the current state, which is all of it without a script.
async fn page(State(feed): State<Arc<Feed>>) -> Response {
    typed("text/html; charset=utf-8", PAGE.replacen(STATE, &feed.state(), 1))
}

/// Streams the changing part of the page as it changes.
async fn events(
    State(feed): State<Arc<Feed>>,
    Extension(peer): Extension<Peer>,
    Extension(charge): Extension<Charge>,
) -> Result<Response, Failure> {
    charge.add(MAX_EVENT_BYTES as u64)?;
    let viewer = feed.view(&peer.principal)?;
    Ok(typed("text/event-stream", Body::from_stream(viewer)))
}

/// Adds the headers that bound what a browser does with an answer.
async fn protect(mut response: Response) -> Response {
    add(response.headers_mut(), CONTENT_SECURITY_POLICY, POLICY);
    add(response.headers_mut(), HeaderName::from_static("x-content-type-options"), "nosniff");
    let name = HeaderName::from_static("cross-origin-resource-policy");
    add(response.headers_mut(), name, "same-origin");
    add(response.headers_mut(), REFERRER_POLICY, "no-referrer");
    add(response.headers_mut(), CACHE_CONTROL, "no-store");
    response
}

fn add(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy forbids these, so that a page with one of them would not work.
    #[test]
    fn page_has_no_inline_script_or_style() {
        assert_eq!(PAGE.matches(STATE).count(), 1);
        assert_eq!(PAGE.matches("<script").count(), 1);
        assert!(PAGE.contains("<script src=\"reef/page.js\" defer></script>"));
        for inline in ["<style", " style=", "javascript:", " onload=", "http:", "https:"] {
            assert!(!PAGE.contains(inline) && !SCRIPT.contains(inline), "{inline}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        for path in &PAGE_PATHS[1..3] {
            assert!(PAGE.contains(&path[1..]), "{path}");
        }
        assert!(SCRIPT.contains(&PAGE_PATHS[3][1..]));
    }
}
