//! Health service of gRPC, for the daemon and for its models.

use super::proto::health::health_check_response::ServingStatus;
use super::proto::health::health_server::Health;
use super::proto::health::{HealthCheckRequest, HealthCheckResponse};
use crate::error::Error;
use crate::kserve::failure::status;
use crate::kserve::middleware::Probe;
use crate::server::Server;
use std::sync::Arc;
use tokio_stream::Empty;
use tonic::{Request, Response, Status};

/// Name of the inference service; it stands for the whole daemon, like the empty name.
const INFERENCE: &str = "inference.GRPCInferenceService";

/// Health of the daemon and its models.
#[derive(Debug)]
pub(super) struct HealthService(pub(super) Arc<Server>);

impl HealthService {
    /// Refuses a model that is not loaded. The error names no other models.
    fn check_model(&self, name: &str, is_probe: bool) -> Result<(), Error> {
        if is_probe {
            let text = "a probe without a token must not name a model";
            return Err(Error::Unauthenticated(text.into()));
        }
        self.0.registry.get(name, "").map(drop).map_err(|error| match error {
            Error::NotFound(_) => Error::NotFound(format!("model {name} is not loaded")),
            error => error,
        })
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    /// Returns the health of the daemon, or of a model by its name.
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let name = &request.get_ref().service;
        if !name.is_empty() && name != INFERENCE {
            let is_probe = request.extensions().get::<Probe>().is_some();
            self.check_model(name, is_probe).map_err(status)?;
        }
        let serving =
            if self.0.is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing };
        Ok(Response::new(HealthCheckResponse { status: serving.into() }))
    }

    type WatchStream = Empty<Result<HealthCheckResponse, Status>>;

    /// Refuses watching: a stream for each watcher would keep a slot. Clients poll instead, as the
    /// protocol allows.
    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(status(Error::Unimplemented("Watch (poll Check instead)".into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::Config;

    #[tokio::test]
    async fn probe_without_token_cannot_query_models() {
        let config = Config { device: "cpu:0?units=1".into(), ..Config::default() };
        let health = HealthService(Server::open(config).unwrap());
        let ask = async |name: &str, is_probe: bool| {
            let mut request = Request::new(HealthCheckRequest { service: name.into() });
            is_probe.then(|| request.extensions_mut().insert(Probe));
            health.check(request).await.map(drop).map_err(|status| status.code())
        };
        for name in ["", INFERENCE] {
            assert_eq!(ask(name, true).await, Ok(()));
        }
        assert_eq!(ask("tiny", true).await, Err(tonic::Code::Unauthenticated));
        assert_eq!(ask("tiny", false).await, Err(tonic::Code::NotFound));
    }
}
