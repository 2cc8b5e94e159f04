//! An open device.

use crate::fault::{Fault, Result};
use crate::handles::Kind;
use crate::objects::device_id::DeviceId;
use crate::objects::dispatcher::{Dispatcher, Running};
use crate::objects::network::{LoadedNetwork, Network};
use crate::status::REEF_NOT_FOUND;
use reef::models::Model;
use reef::op::Operators;
use reef::scheduler::{self, Scheduler};
use reef::{DeviceInfo, Visit, with_device};

/// A device of some backend.
trait AnyDevice: Send + Sync {
    fn info(&self) -> DeviceInfo;
    fn load(&self, id: DeviceId, model: &Model) -> Result<Network>;
    fn dispatcher(&self, id: DeviceId, scheduler: Box<dyn Scheduler>) -> Result<Dispatcher>;
}

/// Object behind the handle of a device.
pub(crate) struct Device {
    id: DeviceId,
    inner: Box<dyn AnyDevice>,
}

impl Kind for Device {
    const NAME: &'static str = "device";
}

impl Device {
    /// Opens the device of this name.
    pub(crate) fn open(name: &str) -> Result<Self> {
        Ok(Self { id: DeviceId::next(), inner: with_device(name, Erase)? })
    }

    pub(crate) fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    pub(crate) fn load(&self, model: &Model) -> Result<Network> {
        self.inner.load(self.id, model)
    }

    /// Starts a dispatcher with the scheduler of this name.
    pub(crate) fn dispatcher(&self, scheduler: &str) -> Result<Dispatcher> {
        let found = scheduler::by_name(scheduler).ok_or_else(|| {
            let have = scheduler::NAMES.join(", ");
            Fault::new(REEF_NOT_FOUND, format!("no scheduler {scheduler:?} (have: {have})"))
        })?;
        self.inner.dispatcher(self.id, found)
    }
}

struct Erase;

impl Visit for Erase {
    type Output = Box<dyn AnyDevice>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        Box::new(Typed(device))
    }
}

struct Typed<D: Operators>(D);

impl<D: Operators> AnyDevice for Typed<D> {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn load(&self, id: DeviceId, model: &Model) -> Result<Network> {
        let (picture, _) = model.picture()?;
        let shapes = [*picture.input(), *picture.output()];
        let loaded = LoadedNetwork::new(model.weights(&self.0)?, shapes)?;
        Ok(Network::new(id, Box::new(loaded)))
    }

    fn dispatcher(&self, id: DeviceId, scheduler: Box<dyn Scheduler>) -> Result<Dispatcher> {
        let running = Running::new(reef::Dispatcher::start(&self.0, scheduler)?);
        Ok(Dispatcher { device: id, inner: Box::new(running) })
    }
}
