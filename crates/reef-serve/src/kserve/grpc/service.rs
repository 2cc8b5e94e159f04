//! Calls of the protocol; each delegates to one function.

use super::flat::Flat;
use super::infer::Caller;
use super::proto::grpc_inference_service_server::GrpcInferenceService;
use super::proto::*;
use super::raw_message::RawMessage;
use super::{describe, infer, memory, repository, settings};
use crate::error::Result;
use crate::kserve::failure::status;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::server::Server;
use prost::Message;
use std::pin::Pin;
use std::sync::Arc;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// Implementation of the gRPC service.
#[derive(Debug)]
pub(super) struct Service(pub(super) Arc<Server>);

type Reply<T> = Result<Response<T>, Status>;

fn reply<T>(result: Result<T>) -> Reply<T> {
    result.map(Response::new).map_err(status)
}

/// Factor from the bytes of an answer to those that it takes until it has been sent, with its texts
/// and its lists.
const ANSWER_FACTOR: u64 = 4;

/// Charges an answer that may be long: its client may leave it unread.
fn charged<T: Message>(charge: Option<&Charge>, answer: T) -> Result<T> {
    let bytes = ANSWER_FACTOR * answer.encoded_len() as u64;
    charge.map_or(Ok(()), |charge| charge.add(bytes))?;
    Ok(answer)
}

fn peer<T>(request: &Request<T>) -> Peer {
    request.extensions().get().cloned().unwrap_or(Peer::UNKNOWN)
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(&self, _: Request<ServerLiveRequest>) -> Reply<ServerLiveResponse> {
        reply(Ok(ServerLiveResponse { live: true }))
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Reply<ServerReadyResponse> {
        reply(Ok(ServerReadyResponse { ready: self.0.is_ready() }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Reply<ModelReadyResponse> {
        let ModelReadyRequest { name, version } = request.into_inner();
        reply(Ok(ModelReadyResponse { ready: self.0.registry.get(&name, &version).is_ok() }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Reply<ServerMetadataResponse> {
        reply(Ok(describe::server(&self.0)))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Reply<ModelMetadataResponse> {
        reply(describe::model(&self.0.registry, &request.into_inner()))
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> Reply<ModelConfigResponse> {
        reply(describe::config(&self.0.registry, &request.into_inner()))
    }

    async fn model_statistics(
        &self,
        request: Request<ModelStatisticsRequest>,
    ) -> Reply<ModelStatisticsResponse> {
        let (server, peer) = (self.0.clone(), peer(&request));
        let charge: Option<Charge> = request.extensions().get().cloned();
        let write = move || {
            let answer = describe::statistics(&server.registry, &request.into_inner())?;
            charged(charge.as_ref(), answer)
        };
        reply(self.0.workers.run_blocking(&peer.principal, (), write).await)
    }

    async fn model_infer(&self, request: Request<RawMessage>) -> Reply<ModelInferResponse> {
        let caller = Caller::of(&request).map_err(status)?;
        reply(infer::infer(&self.0, &caller, request.into_inner()).await)
    }

    type ModelStreamInferStream =
        Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

    /// Answers the requests of one stream in their order, one at a time.
    async fn model_stream_infer(
        &self,
        request: Request<Streaming<RawMessage>>,
    ) -> Reply<Self::ModelStreamInferStream> {
        let caller = Caller::of(&request).map_err(status)?;
        let (server, charge) = (self.0.clone(), caller.charge.clone());
        let permit = caller.permit.clone();
        let answers = request.into_inner().then(move |request| {
            let (server, caller) = (server.clone(), caller.clone());
            async move { Ok(infer::infer_in_stream(&server, &caller, request?).await) }
        });
        Ok(Response::new(Box::pin(Flat::new(answers, charge, permit))))
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> Reply<RepositoryIndexResponse> {
        let charge: Option<Charge> = request.extensions().get().cloned();
        let (peer, request) = (peer(&request), request.into_inner());
        let listed = repository::index(&self.0, &peer, request).await;
        reply(listed.and_then(|answer| charged(charge.as_ref(), answer)))
    }

    async fn repository_model_load(
        &self,
        request: Request<RawMessage>,
    ) -> Reply<RepositoryModelLoadResponse> {
        let (peer, charge) = (peer(&request), request.extensions().get().cloned());
        reply(repository::load(self.0.clone(), &peer, charge, request.into_inner()).await)
    }

    async fn repository_model_unload(
        &self,
        request: Request<RepositoryModelUnloadRequest>,
    ) -> Reply<RepositoryModelUnloadResponse> {
        reply(repository::unload(self.0.clone(), &peer(&request), request.into_inner()).await)
    }

    async fn system_shared_memory_status(
        &self,
        request: Request<SystemSharedMemoryStatusRequest>,
    ) -> Reply<SystemSharedMemoryStatusResponse> {
        reply(memory::status(&self.0, &peer(&request), &request.into_inner()))
    }

    async fn system_shared_memory_register(
        &self,
        request: Request<SystemSharedMemoryRegisterRequest>,
    ) -> Reply<SystemSharedMemoryRegisterResponse> {
        reply(memory::register(&self.0, &peer(&request), &request.into_inner()))
    }

    async fn system_shared_memory_unregister(
        &self,
        request: Request<SystemSharedMemoryUnregisterRequest>,
    ) -> Reply<SystemSharedMemoryUnregisterResponse> {
        reply(memory::unregister(&self.0, &peer(&request), &request.into_inner()))
    }

    async fn cuda_shared_memory_status(
        &self,
        request: Request<CudaSharedMemoryStatusRequest>,
    ) -> Reply<CudaSharedMemoryStatusResponse> {
        reply(memory::cuda_status(&self.0, &peer(&request), &request.into_inner()))
    }

    async fn cuda_shared_memory_register(
        &self,
        request: Request<CudaSharedMemoryRegisterRequest>,
    ) -> Reply<CudaSharedMemoryRegisterResponse> {
        reply(memory::cuda_register(&self.0, &peer(&request), request.into_inner()).await)
    }

    async fn cuda_shared_memory_unregister(
        &self,
        request: Request<CudaSharedMemoryUnregisterRequest>,
    ) -> Reply<CudaSharedMemoryUnregisterResponse> {
        reply(memory::cuda_unregister(&self.0, &peer(&request), &request.into_inner()))
    }

    async fn trace_setting(
        &self,
        request: Request<TraceSettingRequest>,
    ) -> Reply<TraceSettingResponse> {
        reply(settings::trace(&self.0, &peer(&request), request.into_inner()))
    }

    async fn log_settings(
        &self,
        request: Request<LogSettingsRequest>,
    ) -> Reply<LogSettingsResponse> {
        reply(settings::log(&self.0, &peer(&request), request.into_inner()))
    }
}

#[cfg(test)]
mod tests {
    use super::repository_index_response::ModelIndex;
    use super::*;
    use crate::error::Error;
    use crate::net::quota::charge::Memory;

    #[test]
    fn answer_that_lists_is_charged_until_it_is_sent() {
        let memory = Memory::new(u64::MAX, u64::MAX, u64::MAX, u64::MAX, 5000);
        let charge = memory.charge(&Peer::UNKNOWN);
        let list = |bytes: usize| RepositoryIndexResponse {
            models: vec![ModelIndex { name: "x".repeat(bytes), ..ModelIndex::default() }],
        };
        let answer = charged(Some(&charge), list(1000)).unwrap();
        assert_eq!(memory.taken(), ANSWER_FACTOR * answer.encoded_len() as u64);
        assert!(matches!(charged(Some(&charge), list(1000)), Err(Error::Exhausted(_))));
        drop(charge);
        assert_eq!(memory.taken(), 0);
    }
}
