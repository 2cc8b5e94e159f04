//! The standard protocol over gRPC.

mod describe;
mod infer;
mod memory;
mod repository;
mod service;

/// What `proto/inference.proto` says.
#[allow(missing_docs, unreachable_pub, clippy::all)] // it is generated
pub(crate) mod proto {
    tonic::include_proto!("inference");
}

use crate::auth::Token;
use crate::config::Limits;
use crate::listen::{Listener, Peer};
use crate::server::Server;
use crate::{Error, Result};
use proto::grpc_inference_service_server::GrpcInferenceServiceServer;
use service::Service;
use std::sync::Arc;
use tonic::{Request, Status};

/// Calls that one connection has open; others wait at the client.
const MOST_STREAMS: u32 = 128;

/// Serves gRPC on `listener` until `end` comes; requests that are open then are still answered.
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
    let idle = server.config.times.idle();
    let service = GrpcInferenceServiceServer::new(Service(server))
        .max_decoding_message_size(message_mib << 20)
        .max_encoding_message_size(message_mib << 20);
    let check = move |request: Request<()>| {
        let given = request.metadata().get("authorization").map(|value| value.as_bytes());
        let peer = peer(&request);
        crate::auth::check(token.as_deref(), peer, given).map_err(status)?;
        Ok(request)
    };
    let service = tonic::service::interceptor::InterceptedService::new(service, check);
    let transport = tonic::transport::Server::builder()
        .max_concurrent_streams(MOST_STREAMS)
        .http2_keepalive_interval(Some(std::time::Duration::from_secs(30)))
        .add_service(service)
        .serve_with_incoming_shutdown(listener.connections(idle), end);
    transport.await.map_err(|e| Error::system("gRPC", e))
}

/// Who sent a request.
fn peer<T>(request: &Request<T>) -> Peer {
    request.extensions().get::<Peer>().copied().unwrap_or(Peer::STRANGER)
}

/// An error as gRPC says it.
fn status(error: Error) -> Status {
    let text = error.said();
    match error {
        Error::NotFound(_) => Status::not_found(text),
        Error::Invalid(_) => Status::invalid_argument(text),
        Error::Exists(_) => Status::already_exists(text),
        Error::Exhausted(_) => Status::resource_exhausted(text),
        Error::Deadline(_) => Status::deadline_exceeded(text),
        Error::Unavailable(_) => Status::unavailable(text),
        Error::Unimplemented(_) => Status::unimplemented(text),
        Error::Denied(_) => Status::permission_denied(text),
        Error::Failed(_) => Status::internal(text),
    }
}
