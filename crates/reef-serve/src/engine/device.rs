//! Implementation of [`Engine`] for a device of the facade.

use super::api::{DeviceModel, DeviceTrace, Engine, Instance, Sizes};
use super::busy::RunningCount;
use super::constants::{weights, weights_sharing};
use super::instance::{BestEffortInstance, RealTimeInstance};
use super::shared::{SharedMemory, SharedOnDevice};
use crate::class::Class;
use crate::error::{Error, Result};
use reef::cluster::{Cluster, Node};
use reef::models::profile::Profiles;
use reef::models::{self, Model, Weights};
use reef::op::Operators;
use reef::scheduler::{self, RtShare, Scheduler};
use reef::{ClientConfig, Neighbours, Stats};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// Opens the devices of these names, each with a scheduler of that name. Best-effort work keeps
/// `reserve` of each.
///
/// # Errors
///
/// Errors of the devices; `Invalid` for an unknown scheduler, and for a device that is named twice.
pub(crate) fn start(devices: &str, scheduler: &str, reserve: f64) -> Result<Vec<Arc<dyn Engine>>> {
    if scheduler::by_name(scheduler).is_none() {
        return Err(Error::Invalid(scheduler::no_scheduler(scheduler)));
    }
    reef::with_devices(devices, Start { scheduler, reserve })?
}

/// Starts open devices, which the facade need not know.
#[cfg(test)]
pub(crate) fn start_on<D: Operators>(devices: Vec<D>) -> Result<Vec<Arc<dyn Engine>>> {
    reef::VisitAll::visit_all(Start { scheduler: "reef", reserve: 0.0 }, devices)
}

struct Start<'a> {
    /// Name of a known scheduler.
    scheduler: &'a str,
    reserve: f64,
}

impl reef::VisitAll for Start<'_> {
    type Output = Result<Vec<Arc<dyn Engine>>>;

    fn visit_all<D: Operators>(self, devices: Vec<D>) -> Self::Output {
        let scheduler = || -> Box<dyn Scheduler> {
            let scheduler = scheduler::by_name(self.scheduler).expect("checked above");
            Box::new(RtShare::new(scheduler, self.reserve))
        };
        let cluster = Cluster::start(devices, scheduler)?;
        let engine = |node: &Arc<Node<D>>| -> Arc<dyn Engine> {
            Arc::new(OnDevice { node: node.clone(), best_effort: Arc::default() })
        };
        Ok(cluster.nodes().iter().map(engine).collect())
    }
}

/// A device as a node of a cluster of its own kind, below the type-erased interface.
#[derive(Debug)]
struct OnDevice<D: Operators> {
    node: Arc<Node<D>>,
    best_effort: Arc<RunningCount>,
}

impl<D: Operators> Engine for OnDevice<D> {
    fn name(&self) -> String {
        format!("{}: {}", D::NAME, self.node.device().info().name)
    }

    fn sizes(&self, model: &Model) -> Sizes {
        let instance = model.instance_bytes(self.node.device());
        Sizes { weights: model.constant_bytes() as u64, instance: instance as u64 }
    }

    fn load(&self, model: Model, measure: bool) -> Result<Arc<dyn DeviceModel>> {
        let device = self.node.device();
        let loaded = weights(device, &model)?;
        let profiles = model.latencies().map(|latencies| latencies.profiles());
        drop(model); // its constants are on the device
        let profiles = match profiles {
            Some(profiles) => profiles,
            None if measure => models::measured(device, &loaded.network()?)?,
            None => Profiles::default(),
        };
        let (node, best_effort) = (self.node.clone(), self.best_effort.clone());
        let own_bytes = loaded.own_bytes(None) as u64;
        Ok(Arc::new(ModelOnDevice { node, best_effort, loaded, profiles, own_bytes }))
    }

    fn load_sharing(&self, model: Model, base: &dyn DeviceModel) -> Result<Arc<dyn DeviceModel>> {
        let foreign =
            || Error::Failed("cannot share constants with a model of another device".into());
        let base: &ModelOnDevice<D> = base.as_any().downcast_ref().ok_or_else(foreign)?;
        let loaded = weights_sharing(self.node.device(), &model, &base.loaded)?;
        let own_bytes = loaded.own_bytes(Some(&base.loaded)) as u64;
        let (node, best_effort) = (self.node.clone(), self.best_effort.clone());
        let profiles = Profiles::default();
        Ok(Arc::new(ModelOnDevice { node, best_effort, loaded, profiles, own_bytes }))
    }

    fn open_shared(&self, handle: &[u8; 64]) -> Result<Arc<dyn SharedMemory>> {
        Ok(Arc::new(SharedOnDevice::open(self.node.device(), handle)?))
    }

    fn alloc_shared(&self, bytes: usize) -> Result<Arc<dyn SharedMemory>> {
        let device = self.node.device();
        Ok(Arc::new(SharedOnDevice::new(device, device.alloc(bytes)?, bytes)))
    }

    fn trim(&self) -> Result<()> {
        Ok(self.node.device().trim()?)
    }

    fn stats(&self) -> Stats {
        self.node.dispatcher().stats()
    }

    fn units(&self) -> u32 {
        self.node.device().info().units
    }

    fn memory(&self) -> Option<u64> {
        self.node.device().info().memory
    }

    fn check(&self) -> Result<()> {
        Ok(self.node.ask()?)
    }

    fn mark_lost(&self, why: &str) {
        let (backend, why) = (D::NAME, why.to_owned());
        self.node.mark_lost(reef::Error::DeviceLost { backend, why });
    }

    fn uuid(&self) -> Option<[u8; 16]> {
        self.node.device().info().uuid
    }

    fn set_neighbours(&self, neighbours: Option<Arc<dyn Neighbours>>) {
        self.node.dispatcher().set_neighbours(neighbours);
    }

    fn run_pass(&self) {
        self.node.dispatcher().run_pass();
    }

    fn has_best_effort(&self) -> bool {
        self.best_effort.is_any()
    }

    fn clock(&self) -> Duration {
        self.node.device().clock()
    }

    fn set_trace(&self, on: bool) {
        self.node.device().set_trace(on); // where blocks can't be seen, preemptions still can
        self.node.dispatcher().set_trace(on);
    }

    fn take_trace(&self) -> DeviceTrace {
        DeviceTrace {
            spans: self.node.device().take_trace(),
            preemptions: self.node.dispatcher().take_trace(),
        }
    }
}

#[derive(Debug)]
struct ModelOnDevice<D: Operators> {
    node: Arc<Node<D>>,
    best_effort: Arc<RunningCount>,
    loaded: Weights<D>,
    profiles: Profiles,
    own_bytes: u64,
}

impl<D: Operators> DeviceModel for ModelOnDevice<D> {
    fn own_bytes(&self) -> u64 {
        self.own_bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn instance(&self, class: Class, config: ClientConfig) -> Result<Box<dyn Instance>> {
        let network = self.loaded.network()?.with_profiles(&self.profiles);
        let (device, dispatcher) = (self.node.device(), self.node.dispatcher());
        Ok(match class {
            Class::RealTime => Box::new(RealTimeInstance::new(device, dispatcher, network)?),
            Class::BestEffort => {
                let running = self.best_effort.clone();
                let instance =
                    BestEffortInstance::new(device, dispatcher, config, network, running)?;
                Box::new(instance)
            }
        })
    }
}
