//! gRPC server.

use super::decompress::decompress;
use super::health::HealthService;
use super::proto::DESCRIPTORS;
use super::proto::grpc_inference_service_server::GrpcInferenceServiceServer;
use super::proto::health::health_server::HealthServer;
use super::service::Service;
use crate::config::limits::Limits;
use crate::error::{Error, Result};
use crate::kserve::middleware::Middleware;
use crate::net::identity::auth::Tokens;
use crate::net::identity::client_id::Protocol;
use crate::net::keep_alive::{ConnectionInfo, ServedConnection};
use crate::net::listener::Listener;
use crate::server::Server;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;
use tokio_stream::StreamExt;
use tonic::service::Routes;
use tonic::transport::server::Connected;
use tonic_reflection::server::Builder;

/// Maximum number of open calls of a connection; others wait at the client.
const MAX_STREAMS: u32 = 128;

/// Maximum length of a call's headers, of which the client is told.
const MAX_HEAD_BYTES: u32 = 16 << 10;

/// Bytes of a connection, and of each of its streams, that are received before a call reads them.
const WINDOW_BYTES: u32 = 1 << 20;

/// Serves gRPC on `listener` until `end` completes; open requests are still answered.
///
/// A connection that sends no request in time is closed, and one that answers no ping.
///
/// # Errors
///
/// Errors of the transport.
pub(crate) async fn serve(
    server: Arc<Server>,
    tokens: Arc<Tokens>,
    listener: Listener,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let Limits { message_mib, .. } = server.config.get().limits;
    let times = server.config.get().times.clone();
    let service = GrpcInferenceServiceServer::new(Service(server.clone()))
        .max_decoding_message_size(message_mib << 20)
        .max_encoding_message_size(message_mib << 20);
    let health = HealthServer::new(HealthService(server.clone()));
    let reflection = || Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
    let wrong = |e| Error::system("gRPC's reflection", e);
    let calls = Routes::new(service)
        .add_service(health)
        .add_service(reflection().build_v1().map_err(wrong)?)
        .add_service(reflection().build_v1alpha().map_err(wrong)?)
        .into_axum_router()
        .layer(from_fn_with_state(server.clone(), decompress));
    let unsent = server.unsent.clone();
    let middleware = Middleware { server, tokens, protocol: Protocol::Grpc };
    let routes = Routes::from(middleware.wrap(calls));
    let idle = times.idle();
    let serve = move |connection| ServedConnection::new(connection, unsent.clone());
    let connections = listener.connections(idle).map(move |accepted| accepted.map(&serve));
    let transport = tonic::transport::Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEAD_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .http2_keepalive_interval(Some(times.keepalive()))
        .http2_keepalive_timeout(Some(times.keepalive()))
        .add_routes(routes)
        .serve_with_incoming_shutdown(connections, end);
    transport.await.map_err(|e| Error::system("gRPC", e))
}

impl Connected for ServedConnection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info()
    }
}
