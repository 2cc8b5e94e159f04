//! Calls that load, unload and list models.

use super::proto::model_repository_parameter::ParameterChoice;
use super::proto::repository_index_response::ModelIndex;
use super::proto::*;
use super::raw_message::RawMessage;
use crate::error::{Error, Result};
use crate::models::config::load::{LoadParameters, LoadValue};
use crate::models::registry::lookups::IndexEntry;
use crate::name::{ModelName, excerpt};
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::server::Server;
use std::sync::Arc;

/// Refuses a repository by its name: a daemon has one.
fn check_repository(name: &str) -> Result<()> {
    if name.is_empty() {
        return Ok(());
    }
    Err(Error::Unimplemented(format!("repository_name {:?}", excerpt(name))))
}

/// Returns the answer with the versions that are ready, or with all.
pub(super) async fn index(
    server: &Arc<Server>,
    peer: &Peer,
    request: RepositoryIndexRequest,
) -> Result<RepositoryIndexResponse> {
    check_repository(&request.repository_name)?;
    let listed = server.index(peer).await?;
    let entry = |indexed: IndexEntry| ModelIndex {
        name: indexed.name.to_string(),
        version: indexed.version.map(|v| v.to_string()).unwrap_or_default(),
        state: indexed.state().into(),
        reason: indexed.reason,
    };
    let listed = listed.into_iter().filter(|i| i.is_ready || !request.ready);
    Ok(RepositoryIndexResponse { models: listed.map(entry).collect() })
}

pub(super) async fn load(
    server: Arc<Server>,
    peer: &Peer,
    charge: Option<Charge>,
    request: RawMessage,
) -> Result<RepositoryModelLoadResponse> {
    let bytes = request.0.len();
    let decode = move || {
        request.check_entries()?;
        request.decode_as::<RepositoryModelLoadRequest>()
    };
    let request = server.workers.run(&peer.principal, charge.clone(), bytes, decode).await?;
    check_repository(&request.repository_name)?;
    let mut given = LoadParameters::default();
    for (key, value) in request.parameters {
        given.add(&key, load_value(value))?;
    }
    server.load(peer, ModelName::new(&request.model_name)?, given, charge).await?;
    Ok(RepositoryModelLoadResponse {})
}

/// Converts a parameter's value; a file's bytes are shared with the message.
fn load_value(value: ModelRepositoryParameter) -> LoadValue {
    match value.parameter_choice {
        Some(ParameterChoice::StringParam(text)) => LoadValue::Text(text),
        Some(ParameterChoice::BytesParam(bytes)) => LoadValue::Bytes(bytes),
        _ => LoadValue::Other,
    }
}

pub(super) async fn unload(
    server: Arc<Server>,
    peer: &Peer,
    request: RepositoryModelUnloadRequest,
) -> Result<RepositoryModelUnloadResponse> {
    check_repository(&request.repository_name)?;
    server.unload(peer, ModelName::new(&request.model_name)?).await?;
    Ok(RepositoryModelUnloadResponse {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_by_name_is_refused() {
        assert_eq!(check_repository(""), Ok(()));
        let said = check_repository("other").unwrap_err().to_string();
        assert_eq!(said, "repository_name \"other\" is not implemented");
    }
}
