//! gRPC's own question whether the daemon serves, and whether a model is loaded.

use super::proto::health::health_check_response::ServingStatus;
use super::proto::health::health_server::Health;
use super::proto::health::{HealthCheckRequest, HealthCheckResponse};
use crate::error::Error;
use crate::kserve::failure::status;
use crate::server::Server;
use std::sync::Arc;
use tokio_stream::Empty;
use tonic::{Request, Response, Status};

/// The service that stands for all of the daemon, as its empty name does.
const INFERENCE: &str = "inference.GRPCInferenceService";

/// The daemon's health.
#[derive(Debug)]
pub(super) struct HealthService(pub(super) Arc<Server>);

#[tonic::async_trait]
impl Health for HealthService {
    /// Of the daemon, or of a model by its name.
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let name = &request.get_ref().service;
        if !name.is_empty() && name != INFERENCE {
            self.0.registry.get(name, "").map_err(status)?;
        }
        let serving = match self.0.requests.is_closed() {
            true => ServingStatus::NotServing,
            false => ServingStatus::Serving,
        };
        Ok(Response::new(HealthCheckResponse { status: serving.into() }))
    }

    type WatchStream = Empty<Result<HealthCheckResponse, Status>>;

    /// A stream for each watcher would keep a place; clients ask again instead, as the protocol has it.
    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(status(Error::Unimplemented("Watch: ask Check again".into())))
    }
}
