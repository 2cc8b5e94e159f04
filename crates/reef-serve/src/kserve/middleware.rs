//! Middleware of both protocols. A request passes these steps before its call, from the outside:
//!
//! 1. its answer is counted, with any outcome;
//! 2. its principal is identified and admitted;
//! 3. its bytes are charged to that principal and to its connection, as they arrive.

use crate::error::{Error, Result};
use crate::kserve::answer::count;
use crate::kserve::browser_guard;
use crate::kserve::charged_body::{AnswerBody, ChargedBody, MAX_CALL_BYTES, header_bytes};
use crate::kserve::discard_body;
use crate::kserve::failure::{body_error, in_form, is_openai, refuse};
use crate::kserve::parameter::only_header;
use crate::net::identity::auth::{self, Tokens};
use crate::net::identity::client_id::Protocol;
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::Principal;
use crate::net::keep_alive::ConnectionInfo;
use crate::net::quota::admission::AnswerPermit;
use crate::net::quota::connection_pool::{OpenRequest, Stage};
use crate::server::Server;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use hyper::body::Body as _;
use std::sync::Arc;

/// Memory of an open request without its headers and its body: 35 KiB were measured for a call of
/// gRPC whose body does not come (2 cores, 2026-11-28).
const CALL_BYTES: usize = 36 << 10;

/// Code of gRPC for a message that is longer than its decoder allows.
const OUT_OF_RANGE: &str = "11";

/// Code of gRPC for a call that a server does not have.
const UNIMPLEMENTED: &str = "12";

/// Makes a browser ask for a password, which is the token.
const PASSWORD: HeaderValue =
    HeaderValue::from_static("Basic realm=\"REEF: the token is the password\"");

/// Length of the prefix of a gRPC message: the compression flag and the length.
const GRPC_PREFIX_BYTES: usize = 5;

/// Ends of the paths of inferences over HTTP.
const INFERENCES: [&str; 5] =
    ["/infer", "/generate", "/generate_stream", "/v1/chat/completions", "/v1/completions"];

/// Marks a request that was admitted as a probe, without a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe;

/// Paths that need no token if the configuration exempts them.
const PROBES: [&str; 5] = [
    "/v2/health/live",
    "/v2/health/ready",
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
    "/grpc.health.v1.Health/Check",
];

/// Middleware of one protocol.
#[derive(Debug)]
pub(crate) struct Middleware {
    pub(crate) server: Arc<Server>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) protocol: Protocol,
}

impl Middleware {
    /// Adds the steps above around `calls`.
    pub(crate) fn wrap(self, calls: Router) -> Router {
        let counted = (self.server.clone(), self.protocol);
        let middleware = Arc::new(self);
        calls
            .layer(from_fn_with_state(middleware.clone(), charge))
            .layer(from_fn_with_state(middleware, identify))
            .layer(from_fn_with_state(counted, count))
    }

    /// Identifies the peer of a request. The flag is true if it is admitted as a probe only.
    fn admit(&self, peer: Peer, request: &Request) -> Result<(Peer, bool)> {
        let is_open = self.server.config.get().listen.open_probes;
        let is_probe = is_open && PROBES.contains(&request.uri().path());
        match self.identify(peer.clone(), request) {
            Err(_) if is_probe => Ok((peer, true)),
            peer => Ok((peer?, false)),
        }
    }

    /// True if a browser may show a token as a password: the page changes nothing, so other pages
    /// can't use a password that the browser remembers.
    fn is_page(&self, request: &Request) -> bool {
        self.protocol == Protocol::Http && browser_guard::is_page(request.uri().path())
    }

    /// Identifies the peer by its token or its connection.
    fn identify(&self, peer: Peer, request: &Request) -> Result<Peer> {
        let given = only_header(request.headers(), header::AUTHORIZATION.as_str())?;
        let given = given.map(|value| value.as_bytes());
        let password = given.filter(|_| self.is_page(request)).and_then(auth::bearer_of_basic);
        let given = password.as_deref().or(given);
        let principal = auth::identify(&self.tokens, &peer, given)?;
        let peer = Peer { principal, ..peer };
        // Browsers cannot send gRPC.
        if self.protocol == Protocol::Http {
            browser_guard::check(&peer, request.uri().path(), request.headers())?;
        }
        Ok(peer)
    }
}

/// Returns the maximum length of a call's body, for messages of at most `message` bytes, and
/// whether it is an unbounded stream of messages. Paths of HTTP end in names that clients choose,
/// which may be those of gRPC's calls.
pub(super) fn max_body(protocol: Protocol, message: usize, path: &str) -> (usize, bool) {
    match protocol {
        Protocol::Grpc if path.ends_with("/ModelStreamInfer") => (usize::MAX, true),
        Protocol::Grpc if path.ends_with("/ModelInfer") || is_load(protocol, path) => {
            (message + GRPC_PREFIX_BYTES, false)
        }
        Protocol::Http
            if INFERENCES.iter().any(|end| path.ends_with(end)) || is_load(protocol, path) =>
        {
            (message, false)
        }
        _ => (message.min(MAX_CALL_BYTES), false),
    }
}

/// True if it is a load, which may bring files.
fn is_load(protocol: Protocol, path: &str) -> bool {
    match protocol {
        Protocol::Http => path.starts_with("/v2/repository/models/") && path.ends_with("/load"),
        _ => path.ends_with("/RepositoryModelLoad"),
    }
}

/// Identifies the principal of the request; later steps find it as a [`Peer`].
async fn identify(
    State(middleware): State<Arc<Middleware>>,
    mut request: Request,
    next: Next,
) -> Response {
    let info = request.extensions().get::<ConnectionInfo>().cloned();
    let peer = info.as_ref().map_or(Peer::UNKNOWN, |info| info.peer.clone());
    let admitted = middleware
        .admit(peer, &request)
        .and_then(|(peer, probe)| Ok((begin(info.as_ref(), &peer.principal)?, peer, probe)));
    let is_page = middleware.is_page(&request);
    if let (Some(info), Err(_)) = (&info, &admitted) {
        info.slot.refuse();
    }
    match admitted {
        Ok((in_use, peer, is_probe)) => {
            request.extensions_mut().insert(peer);
            is_probe.then(|| request.extensions_mut().insert(Probe));
            in_use.map(|in_use| request.extensions_mut().insert(Arc::new(in_use)));
            next.run(request).await
        }
        Err(error) => {
            let message = middleware.server.config.get().limits.message_mib << 20;
            let (max, _) = max_body(middleware.protocol, message, request.uri().path());
            let mut refusal = refuse_unread(middleware.protocol, request, max, error).await;
            if refusal.status() == StatusCode::UNAUTHORIZED && is_page {
                refusal.headers_mut().insert(header::WWW_AUTHENTICATE, PASSWORD);
            }
            refusal
        }
    }
}

/// Notes that the connection is in use by this principal.
fn begin(info: Option<&ConnectionInfo>, principal: &Principal) -> Result<Option<OpenRequest>> {
    info.map(|info| info.slot.begin(principal)).transpose()
}

/// Closes the connection after this answer, so that a refusal keeps no slot. An HTTP/2 answer
/// cannot request that; such a connection is closed by its pool.
fn close(protocol: Protocol, mut response: Response) -> Response {
    if protocol == Protocol::Http {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Refuses a request before its body is charged or held.
async fn refuse_unread(protocol: Protocol, request: Request, max: usize, error: Error) -> Response {
    let is_openai = is_openai(request.uri().path());
    if protocol == Protocol::Http {
        let (head, body) = request.into_parts();
        discard_body::discard(&head.headers, body, max).await;
    } // HTTP/2 can answer while the request is still sent
    close(protocol, in_form(is_openai, refuse(protocol, error)))
}

/// Charges the request, and its answer until it has been sent.
async fn charge(
    State(middleware): State<Arc<Middleware>>,
    mut request: Request,
    next: Next,
) -> Response {
    let in_use: Option<Arc<OpenRequest>> = request.extensions().get().cloned();
    let is_openai = is_openai(request.uri().path());
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or(Peer::UNKNOWN);
    let charge = middleware.server.memory.charge(&peer);
    let head = middleware.server.memory.charge(&peer);
    let message = middleware.server.config.get().limits.message_mib << 20;
    let (max, is_stream) = max_body(middleware.protocol, message, request.uri().path());
    if let Err(error) = head.add(head_bytes(&request)) {
        return refuse_unread(middleware.protocol, request, max, error).await;
    }
    if is_load(middleware.protocol, request.uri().path())
        && let Err(error) = middleware.server.check_control(&peer)
    {
        return refuse_unread(middleware.protocol, request, max, error).await;
    }
    if !is_stream && let Err(error) = charge.add(0) {
        let refusal = refuse(middleware.protocol, error); // its time runs from now on
        return in_form(is_openai, refusal);
    }
    let announced = request.body().size_hint().lower();
    if announced <= max as u64
        && let Err(error) = charge.check(announced)
    {
        return refuse_unread(middleware.protocol, request, max, error).await;
    }
    let permit = AnswerPermit::default();
    request.extensions_mut().insert(charge.clone());
    request.extensions_mut().insert(permit.clone());
    let (time, convert) =
        (middleware.server.config.get().times.idle(), body_error(middleware.protocol));
    let (body_charge, open) = (charge.clone(), in_use.clone());
    let request = request
        .map(|body| Body::new(ChargedBody::new(body, body_charge, max, time, convert).of(open)));
    let mut response = in_form(is_openai, next.run(request).await);
    name_key(&mut response);
    name_calls(&mut response);
    if in_use.as_ref().is_some_and(|open| open.stage() == Stage::Arriving) {
        response = close(middleware.protocol, response); // the rest of its body is not read
    }
    response.map(|body| Body::new(AnswerBody::new(body, charge, head, in_use, permit)))
}

/// Adds the key to gRPC's own refusal of a long message.
fn name_key(response: &mut Response) {
    let headers = response.headers_mut();
    if headers.get("grpc-status").is_some_and(|status| status == OUT_OF_RANGE)
        && let Some(text) = headers.get("grpc-message").and_then(|text| text.to_str().ok())
        && let Ok(text) = HeaderValue::try_from(format!("{text}%20(limits.message_mib)"))
    {
        headers.insert("grpc-message", text);
    }
}

/// Adds a text to gRPC's own refusal of an unknown call, which has none.
fn name_calls(response: &mut Response) {
    let headers = response.headers_mut();
    if headers.get("grpc-status").is_some_and(|status| status == UNIMPLEMENTED)
        && !headers.contains_key("grpc-message")
    {
        let text = HeaderValue::from_static("unknown%20call:%20reflection%20lists%20all");
        headers.insert("grpc-message", text);
    }
}

/// Returns the bytes that a request takes until it has been answered, without those of its body.
fn head_bytes(request: &Request) -> u64 {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    (CALL_BYTES + path + header_bytes(request.headers())) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    #[test]
    fn path_with_the_name_of_a_call_of_grpc_is_bounded_over_http() {
        let max = |protocol, path: &str| max_body(protocol, 1 << 20, path);
        let (grpc, http) = (Protocol::Grpc, Protocol::Http);
        let call = |name: &str| format!("/inference.GRPCInferenceService/{name}");
        assert_eq!(max(grpc, &call("ModelStreamInfer")), (usize::MAX, true));
        let whole = ((1 << 20) + GRPC_PREFIX_BYTES, false);
        assert_eq!(max(grpc, &call("ModelInfer")), whole);
        assert_eq!(max(grpc, &call("RepositoryModelLoad")), whole);
        assert_eq!(max(http, "/v2/models/m/infer"), (1 << 20, false));
        assert_eq!(max(http, "/v2/repository/models/m/load"), (1 << 20, false));
        for name in ["ModelStreamInfer", "ModelInfer", "RepositoryModelLoad"] {
            let path = format!("/v2/models/m/versions/{name}");
            assert_eq!(max(http, &path), (MAX_CALL_BYTES, false), "{name}");
            assert!(!is_load(http, &path), "{name}");
        }
    }

    #[test]
    fn unknown_call_is_refused_in_words() {
        let said = |headers: &[(&'static str, &'static str)]| {
            let mut response = Response::new(Body::empty());
            for &(name, value) in headers {
                response.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            name_calls(&mut response);
            response.headers().get("grpc-message").cloned()
        };
        let refused = ("grpc-status", UNIMPLEMENTED);
        let unknown = HeaderValue::from_static("unknown%20call:%20reflection%20lists%20all");
        assert_eq!(said(&[refused]), Some(unknown));
        let own = Some(HeaderValue::from_static("Watch"));
        assert_eq!(said(&[refused, ("grpc-message", "Watch")]), own);
        assert_eq!(said(&[("grpc-status", "0")]), None);
    }

    #[test]
    fn head_is_charged_for_its_path_and_each_header() {
        let bytes = |path: usize, headers: usize| {
            let mut request = Request::new(Body::empty());
            *request.uri_mut() = format!("/{}", "x".repeat(path)).parse().unwrap();
            for n in 0..headers {
                let name = HeaderName::try_from(format!("x-{n}")).unwrap();
                request.headers_mut().append(name, HeaderValue::from_static("v"));
            }
            head_bytes(&request)
        };
        assert_eq!(bytes(9000, 0), bytes(0, 0) + 9000);
        // The client sends a few bytes for each, or one if it has sent it before.
        let each = (bytes(0, 400) - bytes(0, 0)) / 400;
        assert!(each as usize >= 2 * size_of::<(HeaderName, HeaderValue)>(), "{each}");
    }
}
