//! A network for fixed shapes, and its idle instances.

use crate::class::Class;
use crate::engine::api::{DeviceModel, Instance, Instances, Sizes};
use crate::engine::call::TextAbilities;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::budget::Reservation;
use crate::models::declaration::Shapes;
use crate::observe::observer::ObservedInstance;
use crate::residency::residents::no_room;
use crate::tenants::tenant::MemoryReservation;
use crate::tensor::{TensorInfo, TensorInfos};
use parking_lot::Mutex;
use reef::ClientConfig;
use std::sync::Arc;

/// A model for fixed shapes of its inputs. Its memory is returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) inputs: TensorInfos,
    pub(crate) outputs: TensorInfos,
    pub(crate) sizes: Sizes,
    /// Idle instances, for each of [`Class::ALL`].
    spare: [Mutex<Vec<Box<dyn Instance>>>; 2],
    content: Mutex<Content>,
    /// True if it answers a request in parts.
    streams: bool,
    text: Option<TextAbilities>,
    /// True if its processes open inputs in clients' device memory.
    opens_device_memory: bool,
    node: Arc<Node>,
    /// Reservation of the tenant that it was created for.
    _taken: Option<MemoryReservation>,
}

/// Memory of a variant; `None` while it is off its device.
#[derive(Debug, Default)]
struct Content {
    loaded: Option<Arc<dyn DeviceModel>>,
    memory: Option<Reservation>,
}

/// Components of a variant.
pub(crate) struct Parts {
    pub(crate) inputs: TensorInfos,
    pub(crate) outputs: TensorInfos,
    pub(crate) sizes: Sizes,
    pub(crate) loaded: Arc<dyn DeviceModel>,
    pub(crate) node: Arc<Node>,
    pub(crate) memory: Reservation,
    pub(crate) taken: Option<MemoryReservation>,
}

impl Variant {
    /// Creates a variant with this number of instances for each of [`Class::ALL`].
    ///
    /// # Errors
    ///
    /// Errors of the device.
    pub(crate) fn new(parts: Parts, instances: [usize; 2]) -> Result<Arc<Self>> {
        let Parts { inputs, outputs, sizes, loaded, node, memory, taken } = parts;
        let spare = Default::default();
        let (streams, text) = (loaded.streams(), loaded.text().cloned());
        let opens_device_memory = loaded.opens_device_memory();
        let content = Mutex::new(Content { loaded: Some(loaded), memory: Some(memory) });
        let variant = Self {
            inputs,
            outputs,
            sizes,
            spare,
            content,
            streams,
            text,
            opens_device_memory,
            node,
            _taken: taken,
        };
        for (class, count) in Class::ALL.into_iter().zip(instances) {
            for _ in 0..count {
                let instance = variant.instance(class, ClientConfig::default())?;
                variant.give(class, instance);
            }
        }
        Ok(Arc::new(variant))
    }

    /// Returns the shapes of its inputs.
    pub(crate) fn shapes(&self) -> Shapes {
        let sizes = |info: &TensorInfo| info.shape.iter().map(|&size| size as usize).collect();
        self.inputs.each.iter().map(sizes).collect()
    }

    /// Returns its model on the device.
    ///
    /// # Errors
    ///
    /// `Unavailable` while it is off the device.
    pub(in crate::models) fn loaded(&self) -> Result<Arc<dyn DeviceModel>> {
        self.content.lock().loaded.clone().ok_or_else(no_room)
    }

    /// Frees its memory, until it is [filled](Self::fill). No instance may be in use.
    pub(in crate::models) fn leave(&self) {
        self.clear();
        let content = std::mem::take(&mut *self.content.lock());
        drop(content); // without the lock
    }

    /// Takes the memory and the idle instances of another variant of the same network.
    ///
    /// # Errors
    ///
    /// `Failed` if that has other tensors: its file has changed.
    pub(in crate::models) fn fill(&self, made: &Self) -> Result<()> {
        if made.inputs != self.inputs || made.outputs != self.outputs {
            let why = "its file has other tensors than when it was loaded: load the model again";
            return Err(Error::Failed(why.into()));
        }
        let content = std::mem::take(&mut *made.content.lock());
        *self.content.lock() = content;
        for (own, new) in self.spare.iter().zip(&made.spare) {
            let instances = std::mem::take(&mut *new.lock());
            own.lock().extend(instances);
        }
        Ok(())
    }

    /// Creates an instance for one client, with the client's `config`.
    ///
    /// # Errors
    ///
    /// Errors of the device; `Unavailable` while it is off the device.
    pub(crate) fn instance(&self, class: Class, config: ClientConfig) -> Result<Box<dyn Instance>> {
        let instance = self.loaded()?.instance(class, config)?;
        Ok(Box::new(ObservedInstance { instance, node: self.node.clone() }))
    }

    /// Drops the idle instances.
    pub(crate) fn clear(&self) {
        self.spare.iter().for_each(|spare| spare.lock().clear());
    }

    /// Returns its device.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// True if it answers a request in parts.
    pub(crate) fn streams(&self) -> bool {
        self.streams
    }

    /// Returns its abilities if it generates text.
    pub(crate) fn text(&self) -> Option<&TextAbilities> {
        self.text.as_ref()
    }

    /// True if its processes open inputs in clients' device memory by themselves.
    pub(crate) fn opens_device_memory(&self) -> bool {
        self.opens_device_memory
    }

    /// Bytes that it has reserved.
    pub(crate) fn bytes(&self) -> u64 {
        self.content.lock().memory.as_ref().map_or(0, Reservation::bytes)
    }
}

impl Instances for Variant {
    fn take(&self, class: Class) -> Result<Box<dyn Instance>> {
        let spare = self.spare[class as usize].lock().pop();
        spare.map_or_else(|| self.instance(class, ClientConfig::default()), Ok)
    }

    fn give(&self, class: Class, instance: Box<dyn Instance>) {
        self.spare[class as usize].lock().push(instance);
    }
}
