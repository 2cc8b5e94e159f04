//! Makes networks for shapes, within the daemon's memory.

use super::variant::{Parts, Variant};
use crate::engine::api::Sizes;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::budget::{Budget, Reservation, within};
use crate::models::declaration::{Declaration, Shapes};
use crate::models::model_spec::ModelSpec;
use crate::observe::observer::Observer;
use crate::tenants::tenant::{MemoryTaken, Tenant};
use crate::tensor::TensorInfos;
use reef::models;
use std::sync::Arc;

/// What makes variants of all models on one device.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) node: Arc<Node>,
    /// What the device has of the daemon's memory.
    pub(crate) budget: Arc<Budget>,
    /// All of it, which memory of the host is taken from: files that are read, copies on their way
    /// to the device.
    pub(crate) host: Arc<Budget>,
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
    /// Bytes that the model has already, and those of them that it keeps.
    pub(crate) taken: u64,
    pub(crate) kept: u64,
    /// Whom its memory is charged to, and how much that may have.
    pub(crate) payer: Option<(&'a Arc<Tenant>, u64)>,
}

/// Whose variants have to go before a network fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InTheWay {
    /// Nobody's: it fails whatever goes.
    Nothing,
    /// Those of who asks for it.
    Own,
    /// Those of anybody.
    Any,
}

/// Why there is no network.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: Error,
    pub(crate) in_the_way: InTheWay,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error, in_the_way: InTheWay::Nothing }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

/// The error, if it is one of memory, with what is in the way.
fn blocked(in_the_way: InTheWay) -> impl Fn(Error) -> Refused {
    move |error| match error {
        Error::Exhausted(_) => Refused { error, in_the_way },
        error => error.into(),
    }
}

type Made<T> = std::result::Result<T, Refused>;

impl Maker {
    /// Reads the files and makes a network for these shapes. Blocks.
    ///
    /// # Errors
    ///
    /// What is wrong with the files or the shapes; `Exhausted`; the device's.
    pub(crate) fn make(&self, order: &Order<'_>) -> Made<Arc<Variant>> {
        let spec = order.spec;
        let reading = self.reading(spec);
        let read = order.read(&reading).map_err(blocked(InTheWay::Own))?;
        let (inputs, outputs) = (read.inputs(), read.outputs());
        let mut infos = (TensorInfos::of(&inputs), TensorInfos::of(&outputs));
        order.declaration.inspect(|declaration| declaration.name_variant(&mut infos, order.shapes));
        let (bytes, sizes) = self.bytes(order, &read)?;
        let own = if order.base.is_some() { bytes - sizes.weights } else { bytes }; // few differ
        let mut taken = order.take(own)?;
        let (mut memory, staged) = self.reserve(order, bytes, staged_bytes(&read))?;
        let loaded = match order.base {
            Some(base) => self.node.engine.load_beside(read, &*base.loaded)?,
            None => self.node.engine.load(read, spec.measure)?,
        };
        drop((reading, staged)); // the weights are on the device
        let shared = sizes.weights.saturating_sub(loaded.own_bytes());
        memory.shrink(bytes.saturating_sub(if order.base.is_some() { shared } else { 0 }));
        order.retake(&mut taken, memory.bytes())?;
        let (inputs, outputs) = infos;
        let node = self.node.clone();
        let parts = Parts { inputs, outputs, sizes, loaded, node, memory, taken };
        Ok(Variant::new(parts, [spec.instances.rt, spec.instances.be])?)
    }

    /// What reading a model's files may take, until it is dropped.
    pub(crate) fn reading(&self, spec: &ModelSpec) -> models::Budget {
        self.host.part(self.most_of(spec))
    }

    /// Most bytes of a model beside the files that came with it, which may lie in memory too; 0 is
    /// no limit.
    fn most_of(&self, spec: &ModelSpec) -> u64 {
        let files = spec.upload.as_ref().map_or(0, |upload| upload.bytes());
        match self.model_bytes {
            0 => 0,
            most => most.saturating_sub(files).max(1),
        }
    }

    /// What it takes at most, which has to be within what a model may have.
    fn bytes(&self, order: &Order<'_>, read: &models::Model) -> Made<(u64, Sizes)> {
        let sizes = self.node.engine.sizes(read);
        let instances = (order.spec.instances.rt + order.spec.instances.be) as u64;
        let instances = instances.saturating_mul(sizes.instance);
        let own = if order.base.is_some() { 0 } else { sizes.weights }; // few differ
        let own = instances.saturating_add(own);
        let most = self.most_of(order.spec);
        within(&order.what(), own.saturating_add(order.kept), most)?;
        within(&order.what(), own.saturating_add(order.taken), most)
            .map_err(blocked(InTheWay::Any))?;
        Ok((sizes.weights.saturating_add(instances), sizes))
    }

    /// `bytes` of the device, and while it is loaded `staged` bytes of the host.
    fn reserve(
        &self,
        order: &Order<'_>,
        bytes: u64,
        staged: u64,
    ) -> Made<(Reservation, Reservation)> {
        let loading = format!("{}, while it is loaded,", order.what());
        let freed = order.taken.saturating_sub(order.kept);
        let fits = self.budget.fits_without(freed, bytes)
            && self.host.fits_without(freed, bytes.saturating_add(staged));
        let in_the_way = if fits { InTheWay::Any } else { InTheWay::Nothing };
        let of =
            |budget: &Budget, bytes| budget.reserve(&loading, bytes).map_err(blocked(in_the_way));
        Ok((of(&self.budget, bytes)?, of(&self.host, staged)?))
    }
}

/// Bytes of the host that the largest layer takes on its way to the device: a copy, and another one
/// that is laid out as the device wants it.
fn staged_bytes(model: &models::Model) -> u64 {
    2 * model.largest_constant_bytes() as u64
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

    fn read(&self, budget: &models::Budget) -> Result<models::Model> {
        match (self.declaration, self.shapes) {
            (Some(declaration), Some(shapes)) => self.spec.open_shaped(declaration, shapes, budget),
            _ => self.spec.open(budget),
        }
    }

    /// Of what its principal may have, before anything of others goes for it.
    fn take(&self, bytes: u64) -> Made<Option<MemoryTaken>> {
        let Some((tenant, most)) = self.payer else { return Ok(None) };
        within(&self.what(), bytes, most.max(1))?; // 0 would be no limit
        tenant.take_memory(bytes, most).map(Some).map_err(blocked(InTheWay::Own))
    }

    fn retake(&self, taken: &mut Option<MemoryTaken>, bytes: u64) -> Made<()> {
        let Some((taken, (_, most))) = taken.as_mut().zip(self.payer) else { return Ok(()) };
        taken.resize(bytes, most).map_err(blocked(InTheWay::Own))
    }
}
