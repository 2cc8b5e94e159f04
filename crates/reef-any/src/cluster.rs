//! Several devices of one backend: networks that are on each, and clients that are placed.

use crate::device::dispatcher_scheduler;
use crate::device_id::DeviceId;
use crate::fault::{Fault, Result};
use crate::request::Times;
use parking_lot::Mutex;
use reef::cluster::{BePlaced, Cluster as Typed, Demand, Node, Replica, Replicas, RtPlaced};
use reef::models::{Error as ModelError, Model, Network, Ports, Weights};
use reef::op::Operators;
use reef::{Class, ClientConfig, Command, Task, VisitAll, with_devices};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// A device of a cluster, as far as others are placed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// Name of its hardware.
    pub name: String,
    /// Clients that are placed there.
    pub clients: u32,
    /// Bytes of its memory that clients and networks have been promised.
    pub promised: u64,
    /// Reason for which it is lost.
    pub lost: Option<String>,
}

trait AnyCluster: Send + Sync {
    fn nodes(&self) -> Vec<NodeInfo>;
    fn limit_memory(&self, node: usize, bytes: u64) -> Result<()>;
    fn mark_lost(&self, node: usize, why: &str) -> Result<()>;
    fn load(&self, model: Model) -> ClusterNetwork;
    fn place(
        &self,
        class: Class,
        network: &ClusterNetwork,
        demand: Demand,
        config: ClientConfig,
    ) -> Result<PlacedClient>;
}

/// Several devices of one backend, each with a dispatcher of its own.
pub struct Cluster(Box<dyn AnyCluster>);

impl fmt::Debug for Cluster {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Cluster").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Opens devices, of which `auto` is one, and starts a dispatcher with the scheduler of this
    /// name on each.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Invalid`: a name, two backends, or one GPU twice; those of the backend.
    pub fn open(names: &str, scheduler: &str) -> Result<Self> {
        dispatcher_scheduler(scheduler)?;
        Ok(Self(with_devices(names, Start(scheduler))??))
    }

    /// Its devices, in the order in which they were given; lost ones stay in it.
    pub fn nodes(&self) -> Vec<NodeInfo> {
        self.0.nodes()
    }

    /// Promises at most `bytes` of a device's memory from now on.
    ///
    /// # Errors
    ///
    /// `Invalid`: there is no such device.
    pub fn limit_memory(&self, node: usize, bytes: u64) -> Result<()> {
        self.0.limit_memory(node, bytes)
    }

    /// Gives a device up: work that waits there ends, and its clients move at their next request.
    ///
    /// # Errors
    ///
    /// `Invalid`: there is no such device.
    pub fn mark_lost(&self, node: usize, why: &str) -> Result<()> {
        self.0.mark_lost(node, why)
    }

    /// Makes a network known, which is loaded onto each device where a client of it is placed.
    pub fn load(&self, model: Model) -> ClusterNetwork {
        self.0.load(model)
    }

    /// Places a client, with an instance of the network. A demand of 0 bytes stands for those of
    /// the instance.
    ///
    /// # Errors
    ///
    /// `Invalid`: the network is another cluster's; `Unplaced` as `Internal`: no device takes it.
    pub fn place(
        &self,
        class: Class,
        network: &ClusterNetwork,
        demand: Demand,
        config: ClientConfig,
    ) -> Result<PlacedClient> {
        self.0.place(class, network, demand, config)
    }
}

/// A network that a cluster's devices can load.
pub struct ClusterNetwork {
    inputs: Ports,
    outputs: Ports,
    name: String,
    /// Of the cluster's type of devices.
    replicas: Box<dyn Any + Send + Sync>,
    cluster: DeviceId,
    /// Bytes of an instance.
    bytes: u64,
}

impl fmt::Debug for ClusterNetwork {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClusterNetwork").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ClusterNetwork {
    /// Inputs, in the order in which requests have them.
    pub fn inputs(&self) -> &Ports {
        &self.inputs
    }

    /// Outputs, likewise.
    pub fn outputs(&self) -> &Ports {
        &self.outputs
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

trait AnyPlaced: Send {
    fn run(&mut self, inputs: &[u8], outputs: &mut [u8]) -> Result<Times>;
    fn node(&self) -> usize;
    fn moves(&self) -> u32;
}

/// A client on one device of a cluster, with an instance of its network. It moves if that is lost.
pub struct PlacedClient {
    inputs: usize,
    outputs: usize,
    /// Node and moves, to be read while a request runs.
    location: Mutex<(usize, u32)>,
    inner: Mutex<Option<Box<dyn AnyPlaced>>>,
}

impl fmt::Debug for PlacedClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PlacedClient").field("node", &self.node()).finish_non_exhaustive()
    }
}

impl PlacedClient {
    fn new(network: &ClusterNetwork, inner: Box<dyn AnyPlaced>) -> Self {
        Self {
            inputs: network.inputs.bytes(),
            outputs: network.outputs.bytes(),
            location: Mutex::new((inner.node(), inner.moves())),
            inner: Mutex::new(Some(inner)),
        }
    }

    /// Runs one inference, on another device if this one is lost. One at a time; others wait.
    ///
    /// # Errors
    ///
    /// `Invalid`: the lengths; `Cancelled`: it was closed; those of the device.
    pub fn run(&self, inputs: &[u8], outputs: &mut [u8]) -> Result<Times> {
        for (what, given, want) in
            [("inputs", inputs.len(), self.inputs), ("outputs", outputs.len(), self.outputs)]
        {
            if given != want {
                return Err(Fault::invalid(format!("{what} must have {want} B, got {given}")));
            }
        }
        let mut inner = self.inner.lock();
        let placed = inner.as_mut().ok_or_else(crate::client::gone)?;
        let times = placed.run(inputs, outputs);
        *self.location.lock() = (placed.node(), placed.moves());
        times
    }

    /// Bytes of the inputs and of the outputs that [`run`](Self::run) takes.
    pub fn bytes(&self) -> [usize; 2] {
        [self.inputs, self.outputs]
    }

    /// Number of the device that it is on.
    pub fn node(&self) -> usize {
        self.location.lock().0
    }

    /// Number of its moves.
    pub fn moves(&self) -> u32 {
        self.location.lock().1
    }

    /// Ends it, after a request that runs.
    pub fn close(&self) {
        drop(self.inner.lock().take());
    }
}

struct Start<'a>(&'a str);

impl VisitAll for Start<'_> {
    type Output = Result<Box<dyn AnyCluster>>;

    fn visit_all<D: Operators>(self, devices: Vec<D>) -> Self::Output {
        let scheduler = || dispatcher_scheduler(self.0).expect("the name was checked");
        let cluster = Typed::start(devices, scheduler)?;
        Ok(Box::new(Running { id: DeviceId::next(), cluster }))
    }
}

struct Running<D: Operators> {
    id: DeviceId,
    cluster: Typed<D>,
}

type NetworkReplicas<D> = Arc<Replicas<D, Weights<D>, ModelError>>;

impl<D: Operators> Running<D> {
    fn node(&self, node: usize) -> Result<&Arc<Node<D>>> {
        let nodes = self.cluster.nodes();
        let have = nodes.len();
        let text = || format!("device must be less than {have}, got {node}");
        nodes.get(node).ok_or_else(|| Fault::invalid(text()))
    }
}

impl<D: Operators> AnyCluster for Running<D> {
    fn nodes(&self) -> Vec<NodeInfo> {
        let info = |node: &Arc<Node<D>>| NodeInfo {
            name: reef::Device::info(node.device()).name,
            clients: node.clients(),
            promised: node.promised_bytes(),
            lost: node.lost().map(ToString::to_string),
        };
        self.cluster.nodes().iter().map(info).collect()
    }

    fn limit_memory(&self, node: usize, bytes: u64) -> Result<()> {
        self.node(node)?.limit_memory(bytes);
        Ok(())
    }

    fn mark_lost(&self, node: usize, why: &str) -> Result<()> {
        self.node(node)?.mark_lost(reef::Error::DeviceLost { backend: D::NAME, why: why.into() });
        Ok(())
    }

    fn load(&self, model: Model) -> ClusterNetwork {
        let bytes = model.instance_bytes(self.cluster.nodes()[0].device()) as u64;
        let constants = model.constant_bytes() as u64;
        let (inputs, outputs, name) = (model.inputs(), model.outputs(), model.name().to_owned());
        let replicas: NetworkReplicas<D> =
            Arc::new(self.cluster.replicas(constants, move |device: &D| model.weights(device)));
        ClusterNetwork {
            inputs,
            outputs,
            name,
            replicas: Box::new(replicas),
            cluster: self.id,
            bytes,
        }
    }

    fn place(
        &self,
        class: Class,
        network: &ClusterNetwork,
        demand: Demand,
        config: ClientConfig,
    ) -> Result<PlacedClient> {
        let replicas = network.replicas.downcast_ref::<NetworkReplicas<D>>();
        let replicas = replicas.filter(|_| network.cluster == self.id).cloned();
        let other = || Fault::invalid("the network is another cluster's");
        let replicas = replicas.ok_or_else(other)?;
        let demand = if demand.bytes == 0 { demand.bytes(network.bytes) } else { demand };
        let build = move |node: &Node<D>| PlacedNetwork::new(replicas.on(node)?);
        let placed: Box<dyn AnyPlaced> = match class {
            Class::RealTime => Box::new(RealTime(self.cluster.real_time(demand, config, build)?)),
            Class::BestEffort => {
                Box::new(BestEffort(self.cluster.best_effort(demand, config, build)?))
            }
        };
        Ok(PlacedClient::new(network, placed))
    }
}

/// An instance on a client's device.
struct PlacedNetwork<D: Operators> {
    network: Network<D>,
    task: Task<D>,
    best_effort: Arc<[Command<D>]>,
    _weights: Arc<Replica<Weights<D>>>,
}

impl<D: Operators> PlacedNetwork<D> {
    fn new(weights: Arc<Replica<Weights<D>>>) -> Result<Self, ModelError> {
        let network = weights.network()?;
        let task = Task::new(network.graphs(usize::MAX)?)?;
        let best_effort = network.graphs(crate::network::BE_GRAPH)?;
        Ok(Self { network, task, best_effort, _weights: weights })
    }
}

struct RealTime<D: Operators>(RtPlaced<D, PlacedNetwork<D>, ModelError>);

impl<D: Operators> AnyPlaced for RealTime<D> {
    fn run(&mut self, inputs: &[u8], outputs: &mut [u8]) -> Result<Times> {
        let timing = self.0.run(|client, placed| {
            placed.network.stage_bytes(0, inputs)?;
            let timing = client.run(&placed.task)?;
            placed.network.read_staged(0, outputs)?;
            Ok::<_, ModelError>(timing)
        })?;
        let (delay, device) = (Some(timing.delay), Some(timing.device));
        Ok(Times { delay, device, total: timing.total })
    }

    fn node(&self) -> usize {
        self.0.node().index()
    }

    fn moves(&self) -> u32 {
        self.0.moves()
    }
}

struct BestEffort<D: Operators>(BePlaced<D, PlacedNetwork<D>, ModelError>);

impl<D: Operators> AnyPlaced for BestEffort<D> {
    fn run(&mut self, inputs: &[u8], outputs: &mut [u8]) -> Result<Times> {
        let since = Instant::now();
        self.0.run(|client, placed| {
            placed.network.stage_bytes(0, inputs)?;
            let last = client.submit(&placed.best_effort)?;
            client.wait(last)?;
            placed.network.read_staged(0, outputs)
        })?;
        Ok(Times { delay: None, device: None, total: since.elapsed() })
    }

    fn node(&self) -> usize {
        self.0.node().index()
    }

    fn moves(&self) -> u32 {
        self.0.moves()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_a_cluster_of_one_device() {
        assert_eq!(Cluster::open("auto", "reef").unwrap().nodes().len(), 1);
    }

    #[test]
    fn error_names_a_wrong_length() {
        let cluster = Cluster::open("cpu:0?units=1", "reef").unwrap();
        let network = cluster.load(Model::open("resnet18").input_size(32).read().unwrap());
        let (class, demand) = (Class::BestEffort, Demand::default());
        let client = cluster.place(class, &network, demand, ClientConfig::default()).unwrap();
        let [inputs, outputs] = [network.inputs(), network.outputs()].map(Ports::bytes);
        for (given, found, want) in [
            (inputs - 1, outputs, format!("inputs must have {inputs} B, got {}", inputs - 1)),
            (inputs, 1, format!("outputs must have {outputs} B, got 1")),
        ] {
            let said = client.run(&vec![0; given], &mut vec![0; found]).unwrap_err();
            assert_eq!(said.to_string(), want);
        }
    }
}
