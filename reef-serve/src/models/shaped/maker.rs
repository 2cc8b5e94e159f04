//! Makes networks for shapes, within the daemon's memory.

use super::variant::{Parts, Variant};
use crate::engine::api::{Engine, ReadModel, Sizes};
use crate::error::Result;
use crate::models::budget::{Budget, within};
use crate::models::declaration::{Declaration, Shapes};
use crate::models::model_spec::ModelSpec;
use crate::observe::observer::Observer;
use crate::tenants::tenant::{MemoryTaken, Tenant};
use crate::tensor::TensorInfos;
use std::sync::Arc;

/// What makes variants of all models.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) budget: Arc<Budget>,
    /// Most bytes of a model; 0 is no limit.
    pub(crate) model_bytes: u64,
    pub(crate) observer: Arc<Observer>,
}

/// What a variant is made from, and beside what.
pub(crate) struct Order<'a> {
    pub(crate) spec: &'a ModelSpec,
    pub(crate) declaration: Option<&'a Declaration>,
    /// In the model's order; the usual ones if there are none.
    pub(crate) shapes: Option<&'a Shapes>,
    /// Whose constants it shares.
    pub(crate) base: Option<&'a Variant>,
    /// Bytes that the model has already.
    pub(crate) taken: u64,
    /// Whom its memory is charged to, and how much that may have.
    pub(crate) payer: Option<(&'a Arc<Tenant>, u64)>,
}

impl Maker {
    /// Reads the files and makes a network for these shapes. Blocks.
    ///
    /// # Errors
    ///
    /// What is wrong with the files or the shapes; `Exhausted`; the device's.
    pub(crate) fn make(&self, order: &Order<'_>) -> Result<Arc<Variant>> {
        let spec = order.spec;
        let reading = self.budget.part(self.model_bytes);
        let read = match (order.declaration, order.shapes) {
            (Some(declaration), Some(shapes)) => spec.open_shaped(declaration, shapes, &reading)?,
            _ => spec.open(&reading)?,
        };
        let (inputs, outputs) = read.ports();
        let mut infos = (TensorInfos::of(&inputs), TensorInfos::of(&outputs));
        order.declaration.inspect(|declaration| declaration.name_variant(&mut infos, order.shapes));
        let (bytes, sizes) = self.bytes(order, &read)?;
        let what = order.what();
        let loading = format!("{what}, while it is loaded,");
        let staged = bytes.saturating_add(read.staged_bytes());
        let mut memory = self.budget.reserve(&loading, staged)?;
        let loaded = match order.base {
            Some(base) => self.engine.load_beside(read, &*base.loaded)?,
            None => self.engine.load(read, spec.measure)?,
        };
        drop(reading); // the weights are on the device
        let shared = sizes.weights.saturating_sub(loaded.own_bytes());
        memory.shrink(bytes.saturating_sub(if order.base.is_some() { shared } else { 0 }));
        let taken = order.take(memory.bytes())?;
        let (inputs, outputs) = infos;
        let observer = self.observer.clone();
        let parts = Parts { inputs, outputs, sizes, loaded, observer, memory, taken };
        Variant::new(parts, [spec.instances.rt, spec.instances.be])
    }

    /// What it takes at most, which has to be within what a model may have.
    fn bytes(&self, order: &Order<'_>, read: &ReadModel) -> Result<(u64, Sizes)> {
        let sizes = self.engine.sizes(read);
        let instances = (order.spec.instances.rt + order.spec.instances.be) as u64;
        let instances = instances.saturating_mul(sizes.instance);
        let own = if order.base.is_some() { 0 } else { sizes.weights }; // few differ
        let all = instances.saturating_add(own).saturating_add(order.taken);
        within(&order.what(), all, self.model_bytes)?;
        Ok((sizes.weights.saturating_add(instances), sizes))
    }
}

impl Order<'_> {
    /// What it is, for errors.
    fn what(&self) -> String {
        let model = format!("model {}/{}", self.spec.name, self.spec.version);
        match (self.declaration.filter(|declared| declared.is_open()), self.shapes) {
            (Some(declared), Some(shapes)) => format!("{model} for {}", declared.show(shapes)),
            _ => model,
        }
    }

    fn take(&self, bytes: u64) -> Result<Option<MemoryTaken>> {
        let take = |(tenant, most): (&Arc<Tenant>, u64)| tenant.take_memory(bytes, most);
        self.payer.map(take).transpose()
    }
}
