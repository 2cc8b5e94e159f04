//! A kubelet: it takes registrations, dials back, watches, allocates, and restarts.

use super::super::proto::device_plugin_client::DevicePluginClient;
use super::super::proto::registration_server::{Registration, RegistrationServer};
use super::super::proto::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse, Empty, RegisterRequest,
};
use crate::socket::{OwnSocket, connect};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

/// Longest time of a step in these tests.
const LIMIT: Duration = Duration::from_secs(60);

/// Devices by id, and whether they are healthy; of each resource that has an open stream.
pub(super) type Lists = BTreeMap<String, BTreeMap<String, bool>>;

#[derive(Debug, Default)]
struct Observed {
    lists: Lists,
    registrations: Vec<RegisterRequest>,
    /// The number of each resource's last registration.
    last: BTreeMap<String, u64>,
    watches: Vec<JoinHandle<()>>,
}

#[derive(Clone, Debug)]
struct Registry {
    folder: PathBuf,
    seen: Arc<Mutex<Observed>>,
}

/// A kubelet that runs.
#[derive(Debug)]
pub(super) struct Kubelet {
    registry: Registry,
    server: JoinHandle<()>,
    _socket: OwnSocket,
}

impl Registry {
    fn with<T>(&self, inspect: impl FnOnce(&mut Observed) -> T) -> T {
        inspect(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Follows a resource's list until its stream ends, or the next registration has another one.
    async fn watch(self, resource: String, mut plugin: DevicePluginClient<Channel>, number: u64) {
        let is_last = |seen: &Observed| seen.last.get(&resource) == Some(&number);
        let mut lists = match plugin.list_and_watch(Empty {}).await {
            Ok(answer) => answer.into_inner(),
            Err(_) => return, // the plugin's socket went meanwhile
        };
        while let Ok(Some(list)) = lists.message().await {
            let devices = list.devices.into_iter().map(|d| (d.id, d.health == "Healthy"));
            let devices = devices.collect();
            self.with(|seen| is_last(seen).then(|| seen.lists.insert(resource.clone(), devices)));
        }
        self.with(|seen| is_last(seen).then(|| seen.lists.remove(&resource)));
    }
}

#[tonic::async_trait]
impl Registration for Registry {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        let (resource, path) = (request.resource_name.clone(), self.folder.join(&request.endpoint));
        let unavailable = |error: &dyn ToString| Status::unavailable(error.to_string());
        let channel = connect(&path).await.map_err(|error| unavailable(&error))?;
        let mut plugin = DevicePluginClient::new(channel);
        let options = plugin.get_device_plugin_options(Empty {}).await?.into_inner();
        assert_eq!(Some(options), request.options);
        self.with(|seen| {
            seen.registrations.push(request);
            let number = seen.registrations.len() as u64;
            seen.last.insert(resource.clone(), number);
            seen.watches.push(tokio::spawn(self.clone().watch(resource, plugin, number)));
        });
        Ok(Response::new(Empty {}))
    }
}

impl Kubelet {
    /// Starts as a kubelet does: whatever is in its folder goes first.
    pub(super) fn start(folder: &Path) -> Self {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
        let (socket, incoming) = OwnSocket::bind(&folder.join("kubelet.sock")).unwrap();
        let registry = Registry { folder: folder.to_owned(), seen: Arc::default() };
        let service = RegistrationServer::new(registry.clone());
        let server = Server::builder().add_service(service).serve_with_incoming(incoming);
        let server = tokio::spawn(async move { drop(server.await) });
        Self { registry, server, _socket: socket }
    }

    /// Breaks all streams, as a fault of the kubelet's does; it goes on.
    pub(super) fn stop_watching(&self) {
        self.registry.with(|seen| {
            seen.watches.drain(..).for_each(|watch| watch.abort());
            seen.lists.clear();
        });
    }

    pub(super) fn registrations(&self) -> Vec<RegisterRequest> {
        self.registry.with(|seen| seen.registrations.clone())
    }

    /// Waits until its lists are as wanted, and gives them.
    pub(super) async fn until(&self, what: &str, is_it: impl Fn(&Lists) -> bool) -> Lists {
        let wait = async {
            loop {
                let lists = self.registry.with(|seen| seen.lists.clone());
                if is_it(&lists) {
                    return lists;
                }
                tokio::time::sleep(Duration::from_millis(2)).await; // sleep: poll of a condition
            }
        };
        let waited = tokio::time::timeout(LIMIT, wait).await;
        waited.unwrap_or_else(|_| {
            panic!(
                "{what}: not within {LIMIT:?}: {:?}",
                self.registry.with(|seen| seen.lists.clone())
            )
        })
    }

    /// Waits until both classes are watched with `healthy` devices each.
    pub(super) async fn until_healthy(&self, healthy: usize) -> Lists {
        let count = |list: &BTreeMap<_, bool>| list.values().filter(|is| **is).count();
        let is_it =
            |lists: &Lists| lists.len() == 2 && lists.values().all(|list| count(list) == healthy);
        self.until(&format!("{healthy} healthy devices of each class"), is_it).await
    }

    /// A client of the plugin's socket for a resource.
    pub(super) async fn plugin(&self, endpoint: &str) -> DevicePluginClient<Channel> {
        DevicePluginClient::new(connect(&self.registry.folder.join(endpoint)).await.unwrap())
    }

    /// Allocates for one container.
    pub(super) async fn allocate(
        &self,
        endpoint: &str,
        ids: &[String],
    ) -> Result<ContainerAllocateResponse, Status> {
        let container_requests = vec![ContainerAllocateRequest { ids: ids.to_vec() }];
        let mut plugin = self.plugin(endpoint).await;
        let answer = plugin.allocate(AllocateRequest { container_requests }).await?.into_inner();
        let [container] =
            answer.container_responses.try_into().expect("one container was asked for");
        Ok(container)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.server.abort();
        self.stop_watching();
    }
}
