//! An [`Engine`] for any device of the facade.

use super::api::{DeviceModel, DeviceTrace, Engine, Instance, ReadModel, Sizes};
use super::constants::Constants;
use super::instance::{BestEffortInstance, RealTimeInstance};
use super::running::Running;
use crate::class::Class;
use crate::error::{Error, Result};
use reef::models;
use reef::models::profile::Profiles;
use reef::op::Operators;
use reef::scheduler::{self, RtShare, Scheduler};
use reef::{ClientConfig, Dispatcher, Neighbours, Stats};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// Opens the device of this name with a scheduler of that name, of which best-effort work keeps `reserve`.
///
/// # Errors
///
/// The device's; `Invalid` for a scheduler that there is not.
pub(crate) fn start(device: &str, scheduler: &str, reserve: f64) -> Result<Arc<dyn Engine>> {
    let wrong = || Error::Invalid(format!("scheduler: no {scheduler:?}"));
    let scheduler = scheduler::by_name(scheduler).ok_or_else(wrong)?;
    let scheduler = Box::new(RtShare::new(scheduler, reserve));
    reef::with_device(device, Start(scheduler))?
}

struct Start(Box<dyn Scheduler>);

impl reef::Visit for Start {
    type Output = Result<Arc<dyn Engine>>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let dispatcher = Arc::new(Dispatcher::start(&device, self.0)?);
        Ok(Arc::new(OnDevice { device, dispatcher, best_effort: Arc::default() }))
    }
}

#[derive(Debug)]
struct OnDevice<D: Operators> {
    device: D,
    dispatcher: Arc<Dispatcher<D>>,
    best_effort: Arc<Running>,
}

impl<D: Operators> Engine for OnDevice<D> {
    fn name(&self) -> String {
        format!("{}: {}", D::NAME, self.device.info().name)
    }

    fn sizes(&self, model: &ReadModel) -> Sizes {
        let (weights, instance) = match model {
            ReadModel::Network(opened) => {
                (opened.model.constant_bytes(), opened.model.instance_bytes(&self.device))
            }
            ReadModel::Program(model) => (model.constant_bytes(), model.instance_bytes()),
        };
        Sizes { weights: weights as u64, instance: instance as u64 }
    }

    fn load(&self, model: ReadModel, measure: bool) -> Result<Arc<dyn DeviceModel>> {
        let device = &self.device;
        let (loaded, latencies) = Constants::bring(device, model)?;
        let profiles = match latencies {
            Some(latencies) => latencies.profiles(),
            None if measure => models::measured(device, &loaded.network()?)?,
            None => Profiles::default(),
        };
        let (device, dispatcher) = (device.clone(), self.dispatcher.clone());
        let best_effort = self.best_effort.clone();
        let own_bytes = loaded.own_bytes();
        Ok(Arc::new(ModelOnDevice { device, dispatcher, best_effort, loaded, profiles, own_bytes }))
    }

    fn load_beside(
        &self,
        model: ReadModel,
        base: &dyn DeviceModel,
    ) -> Result<Arc<dyn DeviceModel>> {
        let foreign = || Error::Failed("a model of another device".into());
        let base: &ModelOnDevice<D> = base.as_any().downcast_ref().ok_or_else(foreign)?;
        let (loaded, own_bytes) = base.loaded.bring_beside(&self.device, model)?;
        let (device, dispatcher) = (self.device.clone(), self.dispatcher.clone());
        let (best_effort, profiles) = (self.best_effort.clone(), Profiles::default());
        Ok(Arc::new(ModelOnDevice { device, dispatcher, best_effort, loaded, profiles, own_bytes }))
    }

    fn stats(&self) -> Stats {
        self.dispatcher.stats()
    }

    fn units(&self) -> u32 {
        self.device.info().units
    }

    fn uuid(&self) -> Option<[u8; 16]> {
        self.device.info().uuid
    }

    fn set_neighbours(&self, who: Option<Arc<dyn Neighbours>>) {
        self.dispatcher.set_neighbours(who);
    }

    fn look(&self) {
        self.dispatcher.look();
    }

    fn has_best_effort(&self) -> bool {
        self.best_effort.is_any()
    }

    fn clock(&self) -> Duration {
        self.device.clock()
    }

    fn set_trace(&self, on: bool) {
        self.device.set_trace(on); // where blocks can't be seen, preemptions still can
        self.dispatcher.set_trace(on);
    }

    fn take_trace(&self) -> DeviceTrace {
        DeviceTrace { spans: self.device.take_trace(), preemptions: self.dispatcher.take_trace() }
    }
}

#[derive(Debug)]
struct ModelOnDevice<D: Operators> {
    device: D,
    dispatcher: Arc<Dispatcher<D>>,
    best_effort: Arc<Running>,
    loaded: Constants<D>,
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
        Ok(match class {
            Class::RealTime => {
                Box::new(RealTimeInstance::new(&self.device, &self.dispatcher, network)?)
            }
            Class::BestEffort => {
                let running = self.best_effort.clone();
                let to = (&self.device, &*self.dispatcher);
                Box::new(BestEffortInstance::new(to, config, network, running)?)
            }
        })
    }
}
