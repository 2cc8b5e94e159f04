//! The kubelet's calls for one resource.

use super::proto::device_plugin_server::DevicePlugin;
use super::proto::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateResponse,
    ContainerPreferredAllocationResponse, Device, DevicePluginOptions, DeviceSpec, Empty,
    ListAndWatchResponse, Mount, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse,
};
use crate::config::Config;
use crate::node::cdi;
use crate::node::edits::{self, Terms, device_node, gpus_of, own_mounts, shared_nodes};
use crate::node::gpu::Gpu;
use crate::node::paths::Node;
use crate::node::state::State;
use crate::prefer::prefer;
use crate::resource::Resource;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;
type List = Result<ListAndWatchResponse, Status>;

/// The kubelet's calls about one resource.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) config: Arc<Config>,
    pub(super) resource: Resource,
    pub(super) state: watch::Receiver<State>,
    /// Each stream of `ListAndWatch` has one of these.
    pub(super) watched: Arc<()>,
    /// Streams end once its sender is dropped.
    pub(super) end: watch::Receiver<()>,
}

/// Options that the plugin reports to the kubelet.
pub(super) fn options() -> DevicePluginOptions {
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true }
}

impl Service {
    /// Number of streams.
    pub(super) fn watchers(&self) -> usize {
        Arc::strong_count(&self.watched).saturating_sub(2) // this one's, and the server's
    }

    fn list(&self, state: &State) -> ListAndWatchResponse {
        let devices = state.gpus.iter().flat_map(|gpu| {
            let is_healthy = gpu.is_there && state.has_daemon;
            let health = if is_healthy { "Healthy" } else { "Unhealthy" };
            self.resource.ids(&gpu.uuid).map(move |id| Device { id, health: health.into() })
        });
        ListAndWatchResponse { devices: devices.collect() }
    }

    /// Sends the list now and after each change. A slow receiver gets the latest list only.
    async fn tell(mut self, lists: mpsc::Sender<List>) {
        let mut last = None;
        loop {
            let state = self.state.borrow_and_update().clone();
            let list = self.list(&state);
            if last.as_ref() != Some(&list) {
                last = Some(list.clone());
                if lists.send(Ok(list)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                changed = self.state.changed() => if changed.is_err() { return },
                _ = self.end.changed() => return,
                () = lists.closed() => return,
            }
        }
    }

    fn container(
        &self,
        ids: &[String],
        state: &State,
    ) -> Result<ContainerAllocateResponse, Status> {
        let (config, resource) = (&*self.config, &self.resource);
        let gpus = gpus_of(resource, ids, &state.gpus).map_err(Status::invalid_argument)?;
        let terms = Terms {
            class: resource.class,
            memory: resource.memory.as_deref(),
            compute: resource.compute.as_deref(),
            // An id belongs to one container at a time, so it names one limit for all programs of
            // that container and for no others.
            name: ids.iter().min().map(String::as_str),
        };
        let envs = edits::variables(&config.node, &terms, &gpus).into_iter().collect();
        let mounts = own_mounts(&config.node, resource.class);
        let answer = ContainerAllocateResponse { envs, ..Default::default() };
        Ok(match &config.cdi {
            Some(_) => by_name(answer, mounts, &gpus),
            None => {
                in_full(answer, [edits::mounts(&config.node), mounts].concat(), &config.node, &gpus)
            }
        })
    }
}

fn by_name(
    answer: ContainerAllocateResponse,
    mounts: Vec<edits::Mount>,
    gpus: &[&Gpu],
) -> ContainerAllocateResponse {
    let cdi_devices = gpus.iter().map(|gpu| CdiDevice { name: cdi::name(gpu) }).collect();
    ContainerAllocateResponse { mounts: to_proto(mounts), cdi_devices, ..answer }
}

fn in_full(
    answer: ContainerAllocateResponse,
    mounts: Vec<edits::Mount>,
    node: &Node,
    gpus: &[&Gpu],
) -> ContainerAllocateResponse {
    let nodes = gpus.iter().map(|gpu| device_node(gpu)).chain(shared_nodes(&node.root));
    let devices = nodes.map(|path| DeviceSpec {
        container_path: path.clone(),
        host_path: path,
        permissions: "rw".into(),
    });
    ContainerAllocateResponse { mounts: to_proto(mounts), devices: devices.collect(), ..answer }
}

fn to_proto(mounts: Vec<edits::Mount>) -> Vec<Mount> {
    let one = |mount: edits::Mount| Mount {
        container_path: mount.container,
        host_path: mount.node,
        read_only: mount.read_only,
    };
    mounts.into_iter().map(one).collect()
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = ReceiverStream<List>;

    async fn get_device_plugin_options(&self, _: Request<Empty>) -> Answer<DevicePluginOptions> {
        Ok(Response::new(options()))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Answer<Self::ListAndWatchStream> {
        let (sender, lists) = mpsc::channel(1);
        tokio::spawn(self.clone().tell(sender));
        Ok(Response::new(ReceiverStream::new(lists)))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Answer<PreferredAllocationResponse> {
        let containers = request.into_inner().container_requests.into_iter().map(|wanted| {
            let size = usize::try_from(wanted.size).unwrap_or(0);
            let ids = prefer(&wanted.available, &wanted.must_include, size);
            ContainerPreferredAllocationResponse { ids }
        });
        Ok(Response::new(PreferredAllocationResponse { container_responses: containers.collect() }))
    }

    async fn allocate(&self, request: Request<AllocateRequest>) -> Answer<AllocateResponse> {
        let state = self.state.borrow().clone();
        let requests = request.into_inner().container_requests;
        let containers = requests.iter().map(|wanted| self.container(&wanted.ids, &state));
        let container_responses = containers.collect::<Result<_, _>>()?;
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Answer<PreStartContainerResponse> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
