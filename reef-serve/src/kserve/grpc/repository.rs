//! Models that come and go.

use super::proto::repository_index_response::ModelIndex;
use super::proto::*;
use crate::error::{Error, Result};
use crate::models::registry::{Indexed, Registry};
use crate::name::ModelName;
use crate::net::identity::peer::Peer;
use crate::server::Server;
use std::sync::Arc;

pub(super) fn index(
    registry: &Registry,
    request: &RepositoryIndexRequest,
) -> Result<RepositoryIndexResponse> {
    let entry = |indexed: Indexed| ModelIndex {
        name: indexed.name.to_string(),
        version: indexed.version.map(|v| v.to_string()).unwrap_or_default(),
        state: indexed.state().into(),
        reason: String::new(),
    };
    let listed = registry.index()?.into_iter().filter(|i| i.ready || !request.ready);
    Ok(RepositoryIndexResponse { models: listed.map(entry).collect() })
}

pub(super) async fn load(
    server: Arc<Server>,
    peer: &Peer,
    request: RepositoryModelLoadRequest,
) -> Result<RepositoryModelLoadResponse> {
    if let Some(key) = request.parameters.keys().next() {
        return Err(Error::Unimplemented(format!("load with parameter {key:?}")));
    }
    server.load(peer, ModelName::new(&request.model_name)?).await?;
    Ok(RepositoryModelLoadResponse {})
}

pub(super) async fn unload(
    server: Arc<Server>,
    peer: &Peer,
    request: RepositoryModelUnloadRequest,
) -> Result<RepositoryModelUnloadResponse> {
    server.unload(peer, ModelName::new(&request.model_name)?).await?;
    Ok(RepositoryModelUnloadResponse {})
}
