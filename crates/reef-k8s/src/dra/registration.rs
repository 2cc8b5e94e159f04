//! Registration of the driver: the kubelet calls the socket that it finds.

use super::config::DRIVER;
use super::proto::registration::registration_server::Registration;
use super::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use std::path::PathBuf;
use tonic::{Request, Response, Status};

/// Service that the kubelet must find among a plugin's versions.
const SERVICE: &str = "v1.DRAPlugin";

/// The kubelet's calls on the socket that it finds.
#[derive(Clone, Debug)]
pub(super) struct DriverRegistration {
    pub(super) endpoint: PathBuf,
}

#[tonic::async_trait]
impl Registration for DriverRegistration {
    async fn get_info(
        &self,
        _: Request<InfoRequest>,
    ) -> std::result::Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "DRAPlugin".into(),
            name: DRIVER.into(),
            endpoint: self.endpoint.to_string_lossy().into_owned(),
            supported_versions: vec![SERVICE.into()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> std::result::Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        if status.plugin_registered {
            tracing::info!("driver {DRIVER} is registered");
        } else {
            tracing::warn!("the kubelet refuses driver {DRIVER}: {}", status.error);
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
