//! What every request goes through before its call, by either protocol, from the outside:
//!
//! 1. its answer is counted, whatever comes of it;
//! 2. whom it speaks for is found out, and whether it may come in;
//! 3. its bytes are charged to that principal and to its connection, as they arrive.

use crate::error::{Error, Result};
use crate::kserve::answer::count;
use crate::kserve::browser_guard;
use crate::kserve::charged_body::{ChargedBody, HeldBody};
use crate::kserve::discard_body;
use crate::kserve::failure::{of_body, refuse};
use crate::net::identity::auth::{self, Tokens};
use crate::net::identity::client_id::Protocol;
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::Principal;
use crate::net::keep_alive::ConnectionInfo;
use crate::net::quota::connection_pool::InUse;
use crate::server::Server;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use std::sync::Arc;

/// Longest body of what is no inference, in bytes.
const CALL_BYTES: usize = 64 << 10;

/// The prefix of a gRPC message: whether it is compressed, and its length.
const GRPC_PREFIX: usize = 5;

/// Notes on a request that it came in as a probe, without a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe;

/// Paths that need no token if the configuration says so.
const PROBES: [&str; 5] = [
    "/v2/health/live",
    "/v2/health/ready",
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
    "/grpc.health.v1.Health/Check",
];

/// One protocol's way in.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) server: Arc<Server>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) protocol: Protocol,
}

impl Intake {
    /// Lets `calls` be reached only through the steps above.
    pub(crate) fn before(self, calls: Router) -> Router {
        let counted = (self.server.clone(), self.protocol);
        let intake = Arc::new(self);
        calls
            .layer(from_fn_with_state(intake.clone(), charge))
            .layer(from_fn_with_state(intake, identify))
            .layer(from_fn_with_state(counted, count))
    }

    /// Whom a request of `peer` speaks for, once it may come in; whether it may only as a probe.
    fn speaks_for(&self, peer: Peer, request: &Request) -> Result<(Peer, bool)> {
        let is_open = self.server.config.get().listen.open_probes;
        let is_probe = is_open && PROBES.contains(&request.uri().path());
        match self.shown(peer.clone(), request) {
            Err(_) if is_probe => Ok((peer, true)),
            shown => Ok((shown?, false)),
        }
    }

    /// Whom it shows to speak for.
    fn shown(&self, peer: Peer, request: &Request) -> Result<Peer> {
        let given = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let principal = auth::identify(&self.tokens, &peer, given)?;
        let peer = Peer { principal, ..peer };
        if self.protocol == Protocol::Http {
            browser_guard::check(&peer, request.headers())?; // browsers speak no gRPC
        }
        Ok(peer)
    }
}

/// The longest body of a call where a message has `message` bytes at most, and whether it is a
/// stream of messages, which has no longest.
pub(super) fn longest(message: usize, path: &str) -> (usize, bool) {
    match path {
        _ if path.ends_with("/ModelStreamInfer") => (usize::MAX, true),
        _ if path.ends_with("/ModelInfer") => (message + GRPC_PREFIX, false),
        _ if path.ends_with("/infer") => (message, false),
        _ if is_load(path) => (message + GRPC_PREFIX, false),
        _ => (message.min(CALL_BYTES), false),
    }
}

/// Whether it is a load, which may bring files.
fn is_load(path: &str) -> bool {
    let http = path.strip_prefix("/v2/repository/models/");
    http.is_some_and(|rest| rest.ends_with("/load")) || path.ends_with("/RepositoryModelLoad")
}

/// Finds out whom the request speaks for; later steps find it as a [`Peer`].
async fn identify(State(intake): State<Arc<Intake>>, mut request: Request, next: Next) -> Response {
    let info = request.extensions().get::<ConnectionInfo>().cloned();
    let peer = info.as_ref().map_or(Peer::UNKNOWN, |info| info.peer.clone());
    let admitted = intake
        .speaks_for(peer, &request)
        .and_then(|(peer, probe)| Ok((begin(info.as_ref(), &peer.principal)?, peer, probe)));
    info.inspect(|info| info.note_request(admitted.is_ok()));
    match admitted {
        Ok((in_use, peer, is_probe)) => {
            request.extensions_mut().insert(peer);
            is_probe.then(|| request.extensions_mut().insert(Probe));
            in_use.map(|in_use| request.extensions_mut().insert(Arc::new(in_use)));
            next.run(request).await
        }
        Err(error) => close(intake.protocol, refuse(intake.protocol, error)),
    }
}

/// Notes that the connection is in use, by this principal.
fn begin(info: Option<&ConnectionInfo>, principal: &Principal) -> Result<Option<InUse>> {
    info.map(|info| info.place.begin(principal)).transpose()
}

/// Ends the connection with this answer, so that a refusal keeps no place. HTTP/2 has no word for
/// that in an answer: such a connection is closed by [`crate::net::keep_alive`].
fn close(protocol: Protocol, mut response: Response) -> Response {
    if protocol == Protocol::Http {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Refuses it before its files are charged for or held.
async fn refuse_load(protocol: Protocol, request: Request, max: usize, error: Error) -> Response {
    if protocol == Protocol::Http {
        let (head, body) = request.into_parts();
        discard_body::discard(&head.headers, body, max).await;
    } // a stream of HTTP/2 has an answer while its request goes on
    close(protocol, refuse(protocol, error))
}

/// Charges for the request, and for its answer until that has been sent.
async fn charge(State(intake): State<Arc<Intake>>, mut request: Request, next: Next) -> Response {
    let in_use: Option<Arc<InUse>> = request.extensions_mut().remove();
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or(Peer::UNKNOWN);
    let charge = intake.server.memory.charge(&peer);
    let message = intake.server.config.get().limits.message_mib << 20;
    let (max, is_stream) = longest(message, request.uri().path());
    if is_load(request.uri().path())
        && let Err(error) = intake.server.check_control(&peer)
    {
        return refuse_load(intake.protocol, request, max, error).await;
    }
    if !is_stream && let Err(error) = charge.add(0) {
        return refuse(intake.protocol, error); // its time runs from now on
    }
    request.extensions_mut().insert(charge.clone());
    let (time, say) = (intake.server.config.get().times.idle(), of_body(intake.protocol));
    let (paying, arriving) = (charge.clone(), in_use.as_ref().map(|in_use| in_use.arriving()));
    let request = request.map(|body| {
        let body = ChargedBody::new(body, paying, max, time, say);
        Body::new(body.until_there(arriving))
    });
    let response = next.run(request).await;
    response.map(|body| Body::new(HeldBody::new(body, charge, in_use)))
}
