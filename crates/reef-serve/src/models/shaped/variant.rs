//! A network for fixed shapes, and its idle instances.

use crate::class::Class;
use crate::engine::api::{DeviceModel, Instance, Instances, Sizes};
use crate::engine::call::TextAbilities;
use crate::engine::node::Node;
use crate::error::Result;
use crate::models::budget::Reservation;
use crate::models::declaration::Shapes;
use crate::observe::observer::ObservedInstance;
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
    pub(in crate::models) loaded: Arc<dyn DeviceModel>,
    node: Arc<Node>,
    memory: Reservation,
    /// Reservation of the tenant that it was created for.
    _taken: Option<MemoryReservation>,
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
        let variant = Self { inputs, outputs, sizes, spare, loaded, node, memory, _taken: taken };
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

    /// Creates an instance for one client, with the client's `config`.
    ///
    /// # Errors
    ///
    /// Errors of the device.
    pub(crate) fn instance(&self, class: Class, config: ClientConfig) -> Result<Box<dyn Instance>> {
        let instance = self.loaded.instance(class, config)?;
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
        self.loaded.streams()
    }

    /// Returns its abilities if it generates text.
    pub(crate) fn text(&self) -> Option<&TextAbilities> {
        self.loaded.text()
    }

    /// Bytes that it has reserved.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.bytes()
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
