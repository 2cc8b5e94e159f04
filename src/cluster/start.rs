//! The cluster, which devices and clients enter.

use super::assignment::Spec;
use super::demand::Demand;
use super::failure::Failure;
use super::ledger::Ledger;
use super::node::Node;
use super::nodes::Nodes;
use super::placed::{BePlaced, Placed, RtPlaced};
use super::replicas::Replicas;
use reef_core::scheduler::Scheduler;
use reef_core::{ClientConfig, Device, Dispatcher, Error, Result};
use std::sync::Arc;

/// Several devices of one process, each with a [`Dispatcher`] of its own.
///
/// Clients are *placed*: by memory, by load, real-time ones apart from each other. What a client
/// runs is made on its device by a function of its own, and again on another device if that one is
/// lost.
///
/// ```
/// use reef::cluster::{Cluster, Demand};
/// use reef::models::{Model, Result, Seeded};
/// use reef::{ClientConfig, Task, VisitAll, op::Operators, scheduler::Reef};
///
/// struct Serve;
///
/// impl VisitAll for Serve {
///     type Output = Result<Vec<f32>>;
///
///     fn visit_all<D: Operators>(self, devices: Vec<D>) -> Self::Output {
///         let cluster = Cluster::start(devices, || Box::new(Reef::default()))?;
///         let model = Model::open("resnet18").input_size(32).read()?;
///         let image = Seeded(1).input(model.input_len());
///         let weights = cluster.replicas(50 << 20, move |device: &D| model.weights(device));
///         let demand = Demand::default().bytes(1 << 20).load(0.2);
///         let mut client = cluster.real_time(demand, ClientConfig::default(), move |node| {
///             let weights = weights.on(node)?;
///             let network = weights.network()?;
///             let task = Task::new(network.inference())?;
///             Ok((network, task, weights))
///         })?;
///         client.run(|client, (network, task, _)| {
///             network.stage_input(&image)?;
///             client.run(task)?; // on another device, should this one be lost
///             network.staged_output()
///         })
///     }
/// }
///
/// let logits = reef::with_devices("cpu:0?units=1,cpu:1?units=1", Serve)??; // or "cuda:*"
/// assert_eq!(logits.len(), 1000);
/// # Ok::<(), reef::models::Error>(())
/// ```
#[derive(Debug)]
pub struct Cluster<D: Device> {
    nodes: Nodes<D>,
}

impl<D: Device> Cluster<D> {
    /// Starts a dispatcher on each of `devices`, with a scheduler of its own.
    ///
    /// # Errors
    ///
    /// `Invalid` without devices, or if two are the same one; the errors of [`Dispatcher::start`].
    pub fn start(devices: Vec<D>, scheduler: impl Fn() -> Box<dyn Scheduler>) -> Result<Self> {
        let infos: Vec<_> = devices.iter().map(Device::info).collect();
        if devices.is_empty() {
            return Err(Error::invalid("devices", "must be at least one, got none"));
        }
        for (at, info) in infos.iter().enumerate().filter(|(_, info)| info.uuid.is_some()) {
            if let Some(first) = infos[..at].iter().position(|other| other.uuid == info.uuid) {
                return Err(Error::invalid(
                    format!("devices {first} and {at}"),
                    format!("must differ, both are {}", info.name),
                ));
            }
        }
        let ledger = Ledger::new(infos.iter().map(|info| info.memory));
        let node = |(at, device): (usize, D)| {
            let dispatcher = Dispatcher::start(&device, scheduler())?;
            Ok(Arc::new(Node::new(at, device, dispatcher, ledger.clone())))
        };
        let all = devices.into_iter().enumerate().map(node).collect::<Result<_>>()?;
        Ok(Self { nodes: Nodes { all, ledger } })
    }

    /// Its devices, in the order in which they were given; lost ones stay in it.
    pub fn nodes(&self) -> &[Arc<Node<D>>] {
        &self.nodes.all
    }

    /// Places a real-time client. `build` makes what it runs, on the device that takes it and on
    /// any that it moves to.
    ///
    /// # Errors
    ///
    /// `Unplaced` if no device takes it; the errors of `build` that another device would give as
    /// well.
    pub fn real_time<M, E: Failure>(
        &self,
        demand: Demand,
        config: ClientConfig,
        build: impl Fn(&Node<D>) -> Result<M, E> + Send + Sync + 'static,
    ) -> Result<RtPlaced<D, M, E>, E> {
        let spec = Spec { demand, config, build: Box::new(build) };
        Placed::new(self.nodes.clone(), spec)
    }

    /// Places a best-effort client, likewise.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`real_time`](Self::real_time).
    pub fn best_effort<M, E: Failure>(
        &self,
        demand: Demand,
        config: ClientConfig,
        build: impl Fn(&Node<D>) -> Result<M, E> + Send + Sync + 'static,
    ) -> Result<BePlaced<D, M, E>, E> {
        let spec = Spec { demand, config, build: Box::new(build) };
        Placed::new(self.nodes.clone(), spec)
    }

    /// Makes replicas, which clients on one device share, such as a model's weights: `bytes` of
    /// device memory on each device that uses one.
    pub fn replicas<W, E: Failure>(
        &self,
        bytes: u64,
        build: impl Fn(&D) -> Result<W, E> + Send + Sync + 'static,
    ) -> Replicas<D, W, E> {
        Replicas::new(self.nodes.all.len(), bytes, build)
    }
}
