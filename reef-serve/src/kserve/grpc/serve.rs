//! gRPC connections.

use super::first_request::{ConnectionInfo, FirstRequestTimeout, peer};
use super::proto::grpc_inference_service_server::GrpcInferenceServiceServer;
use super::service::Service;
use crate::config::settings::Limits;
use crate::error::{Error, Result};
use crate::kserve::answer::count;
use crate::kserve::failure::status;
use crate::net::auth::{self, Token};
use crate::net::clients::Protocol;
use crate::net::listener::Listener;
use crate::net::peer::Peer;
use crate::server::Server;
use axum::middleware;
use std::sync::Arc;
use tokio_stream::StreamExt;
use tonic::Request;
use tonic::service::Routes;

/// Calls that one connection has open; others wait at the client.
const MAX_STREAMS: u32 = 128;

/// Serves gRPC on `listener` until `end` comes; requests that are open then are still answered.
///
/// A connection that asks for nothing in time is closed, and one that answers no ping.
///
/// # Errors
///
/// The transport's.
pub(crate) async fn serve(
    server: Arc<Server>,
    token: Option<Arc<Token>>,
    listener: Listener,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let Limits { message_mib, .. } = server.config.limits;
    let times = server.config.times.clone();
    let counted = server.clone();
    let service = GrpcInferenceServiceServer::new(Service(server))
        .max_decoding_message_size(message_mib << 20)
        .max_encoding_message_size(message_mib << 20);
    let check = move |mut request: Request<()>| {
        let peer = peer(&request);
        let given = request.metadata().get("authorization").map(|value| value.as_bytes());
        let principal = auth::identify(token.as_deref(), &peer, given).map_err(status)?;
        request.extensions_mut().insert(Peer { principal, ..peer });
        if let Some(info) = request.extensions().get::<ConnectionInfo>() {
            info.note_request();
        }
        Ok(request)
    };
    let service = tonic::service::interceptor::InterceptedService::new(service, check);
    let counted = middleware::from_fn_with_state((counted, Protocol::Grpc), count);
    let routes = Routes::from(Routes::new(service).into_axum_router().layer(counted));
    let idle = times.idle();
    let connections = listener
        .connections(idle)
        .map(move |come| come.map(|connection| FirstRequestTimeout::new(connection, idle)));
    let transport = tonic::transport::Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_keepalive_interval(Some(times.keepalive()))
        .http2_keepalive_timeout(Some(times.keepalive()))
        .add_routes(routes)
        .serve_with_incoming_shutdown(connections, end);
    transport.await.map_err(|e| Error::system("gRPC", e))
}
