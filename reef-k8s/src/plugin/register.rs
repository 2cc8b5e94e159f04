//! Tells a kubelet of a resource.

use super::proto::RegisterRequest;
use super::proto::registration_client::RegistrationClient;
use super::service::options;
use crate::error::{Error, Result};
use crate::resource::Resource;
use std::path::Path;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// The version of the interface.
const VERSION: &str = "v1beta1";
/// How long a kubelet may take: it asks the plugin in turn before it answers.
const PATIENCE: Duration = Duration::from_secs(15);

/// A connection to a Unix socket.
pub(super) async fn connect(path: &Path) -> Result<Channel> {
    let failed = |error: &dyn std::error::Error| {
        Error::Failed(format!(
            "{}: {}",
            path.display(),
            error.source().map_or(error.to_string(), ToString::to_string)
        ))
    };
    let endpoint = Endpoint::from_shared(format!("unix:{}", path.display()));
    let endpoint = endpoint.map_err(|error| failed(&error))?.timeout(PATIENCE);
    endpoint.connect().await.map_err(|error| failed(&error))
}

/// Registers a resource at the kubelet's socket.
pub(super) async fn register(socket: &Path, resource: &Resource) -> Result<()> {
    let request = RegisterRequest {
        version: VERSION.into(),
        endpoint: resource.endpoint(),
        resource_name: resource.name(),
        options: Some(options()),
    };
    let mut kubelet = RegistrationClient::new(connect(socket).await?);
    let answer = kubelet.register(request).await;
    let refused = |status: tonic::Status| {
        Error::Failed(format!("{}: {}", socket.display(), status.message()))
    };
    answer.map(drop).map_err(refused)
}
