//! The kubelet's side: it finds the plugin by its socket, and prepares claims.

use super::cluster::{Cluster, NODE};
use crate::dra::config::{ClaimsConfig, SuspendedMemory};
use crate::dra::proto::registration::registration_client::RegistrationClient;
use crate::dra::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use crate::dra::proto::v1::dra_plugin_client::DraPluginClient;
use crate::dra::proto::v1::{
    Claim, Device, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest,
};
use crate::dra::run::serve;
use crate::error::Result;
use crate::socket::connect;
use crate::tests::node::FakeNode;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Longest time of a step in these tests.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// A node with folders as a kubelet has them.
pub(super) fn config(node: &FakeNode) -> ClaimsConfig {
    let at = |name: &str| node.folder.join(name);
    for folder in ["plugins", "registry"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    ClaimsConfig {
        node: node.node(),
        name: NODE.into(),
        plugins: at("plugins"),
        registry: at("registry"),
        cdi: at("cdi"),
        dmem_hook: None,
        memory: Some(141 << 30),
        suspended: SuspendedMemory::Count,
        pace: node.config().pace,
    }
}

/// A plugin that runs until this is dropped.
pub(super) struct Plugin(pub(super) JoinHandle<Result<()>>);

impl Plugin {
    pub(super) fn start(config: &ClaimsConfig, cluster: &Arc<Cluster>) -> Self {
        let (config, cluster) = (config.clone(), cluster.clone());
        Self(tokio::spawn(async move { serve(&config, cluster, std::future::pending()).await }))
    }

    /// Ends it, and waits until its sockets are gone.
    pub(super) async fn end(mut self) {
        self.0.abort();
        let _ = timeout(LIMIT, &mut self.0).await.expect("an end");
    }

    /// Error that ends it without a request.
    pub(super) async fn line(mut self) -> String {
        let ended = timeout(LIMIT, &mut self.0).await.expect("an end").unwrap();
        ended.unwrap_err().to_string()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until something is so.
pub(super) async fn until(what: &str, is_it: impl Fn() -> bool) {
    let wait = async {
        while !is_it() {
            sleep(Duration::from_millis(2)).await; // sleep: poll of a condition
        }
    };
    timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"));
}

/// A kubelet that has found the plugin.
pub(super) struct Kubelet {
    pub(super) info: PluginInfo,
}

impl Kubelet {
    /// Polls the registry until there is a plugin that answers, and registers it.
    pub(super) async fn find(config: &ClaimsConfig) -> Self {
        let socket = config.registry.join("reef.dev-reg.sock");
        let wait = async {
            loop {
                match Self::ask(&socket).await {
                    Some(kubelet) => return kubelet,
                    None => sleep(Duration::from_millis(2)).await, // sleep: poll of a condition
                }
            }
        };
        timeout(LIMIT, wait).await.expect("a plugin's socket in the registry")
    }

    async fn ask(socket: &Path) -> Option<Self> {
        let mut plugin = RegistrationClient::new(connect(socket).await.ok()?);
        let info = plugin.get_info(InfoRequest {}).await.ok()?.into_inner();
        let status = RegistrationStatus { plugin_registered: true, error: String::new() };
        plugin.notify_registration_status(status).await.ok()?;
        Some(Self { info })
    }

    async fn plugin(&self) -> DraPluginClient<tonic::transport::Channel> {
        DraPluginClient::new(connect(Path::new(&self.info.endpoint)).await.unwrap())
    }

    /// Prepares claims, and gives what was said of each, in order.
    pub(super) async fn prepare_all(
        &self,
        uids: &[&str],
    ) -> Vec<std::result::Result<Vec<Device>, String>> {
        let claims = uids.iter().map(|uid| claim(uid)).collect();
        let mut plugin = self.plugin().await;
        let answer = plugin.node_prepare_resources(NodePrepareResourcesRequest { claims });
        let mut answers = answer.await.unwrap().into_inner().claims;
        let each = uids.iter().map(|uid| answers.remove(*uid).expect("an answer for each claim"));
        each.map(|it| if it.error.is_empty() { Ok(it.devices) } else { Err(it.error) }).collect()
    }

    pub(super) async fn prepare(&self, uid: &str) -> std::result::Result<Vec<Device>, String> {
        self.prepare_all(&[uid]).await.remove(0)
    }

    pub(super) async fn unprepare(&self, uid: &str) -> std::result::Result<(), String> {
        let claims = vec![claim(uid)];
        let mut plugin = self.plugin().await;
        let answer = plugin.node_unprepare_resources(NodeUnprepareResourcesRequest { claims });
        let mut answers = answer.await.unwrap().into_inner().claims;
        let error = answers.remove(uid).expect("an answer for each claim").error;
        if error.is_empty() { Ok(()) } else { Err(error) }
    }
}

fn claim(uid: &str) -> Claim {
    Claim { namespace: "team".into(), uid: uid.into(), name: format!("claim-{uid}") }
}
