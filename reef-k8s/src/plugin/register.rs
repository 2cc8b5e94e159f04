//! Tells a kubelet of a resource.

use super::proto::RegisterRequest;
use super::proto::registration_client::RegistrationClient;
use super::service::options;
use crate::error::{Error, Result};
use crate::resource::Resource;
use crate::socket::connect;
use std::path::Path;

/// The version of the interface.
const VERSION: &str = "v1beta1";
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
