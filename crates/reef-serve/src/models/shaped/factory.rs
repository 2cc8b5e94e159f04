//! Creation of networks for shapes, within the daemon's memory.

use super::variant::{Parts, Variant};
use crate::engine::api::Sizes;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::budget::{Budget, Reservation, within};
use crate::models::declaration::{Declaration, Shapes};
use crate::models::model_spec::ModelSpec;
use crate::observe::observer::Observer;
use crate::process::model::{ProcessModel, ProcessModelSpec};
use crate::process::settings::Program;
use crate::residency::residents::Residents;
use crate::tenants::tenant::{MemoryReservation, Tenant};
use crate::tensor::TensorInfos;
use reef::models;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Creates variants of all models on one device.
#[derive(Debug)]
pub(crate) struct VariantFactory {
    pub(crate) node: Arc<Node>,
    /// Part of the daemon's budget for the device.
    pub(crate) budget: Arc<Budget>,
    /// The daemon's whole budget, from which host memory is reserved: files that are read, copies
    /// on their way to the device.
    pub(crate) host: Arc<Budget>,
    /// Maximum number of bytes of a model; 0 means no limit.
    pub(crate) model_bytes: u64,
    /// Maximum number of bytes of a message, which bounds the answers of processes.
    pub(crate) message_bytes: u64,
    pub(crate) observer: Arc<Observer>,
    /// Set when the daemon ends.
    pub(crate) closing: Arc<AtomicBool>,
}

/// Parameters of a new variant.
pub(crate) struct VariantOrder<'a> {
    pub(crate) spec: &'a ModelSpec,
    pub(crate) declaration: Option<&'a Declaration>,
    /// In the model's order; `None` for the default shapes.
    pub(crate) shapes: Option<&'a Shapes>,
    /// Variant whose constants it shares.
    pub(crate) base: Option<&'a Variant>,
    /// Bytes that the model has reserved already, and the part of them that cannot be evicted.
    pub(crate) taken: u64,
    pub(crate) kept: u64,
    /// Tenant that its memory is charged to, and the limit of that tenant.
    pub(crate) payer: Option<(&'a Arc<Tenant>, u64)>,
    /// Makes room for it, before its memory is reserved.
    pub(crate) room: Option<&'a dyn Fn(PeakBytes)>,
}

/// Bytes of a network while it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeakBytes {
    /// Bytes that it keeps.
    pub(crate) own: u64,
    /// Host memory for its largest layer on its way to the device.
    pub(crate) staged: u64,
    /// Host memory that its files were read into.
    pub(crate) reading: u64,
}

/// Variants that can be evicted to make a network fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// None: it fails in any case.
    None,
    /// Variants of the same principal.
    Own,
    /// Variants of any principal other than the owner.
    Others,
    /// Variants of any principal.
    Any,
}

/// Error of a new variant, with the eviction that may help.
#[derive(Debug)]
pub(crate) struct RefusedVariant {
    pub(crate) error: Error,
    pub(crate) eviction: Eviction,
}

impl From<Error> for RefusedVariant {
    fn from(error: Error) -> Self {
        Self { error, eviction: Eviction::None }
    }
}

impl From<RefusedVariant> for Error {
    fn from(refused: RefusedVariant) -> Self {
        refused.error
    }
}

/// Adds the possible eviction to an error of memory.
fn with_eviction(eviction: Eviction) -> impl Fn(Error) -> RefusedVariant {
    move |error| match error {
        Error::Exhausted(_) => RefusedVariant { error, eviction },
        error => error.into(),
    }
}

type VariantResult<T> = std::result::Result<T, RefusedVariant>;

impl VariantFactory {
    /// Reads the files and creates a network for these shapes. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of the files or the shapes; `Exhausted`; errors of the device.
    pub(crate) fn make(&self, order: &VariantOrder<'_>) -> VariantResult<Arc<Variant>> {
        let spec = order.spec;
        let reading = self.read_budget(spec);
        let read = order.read(&reading).map_err(with_eviction(Eviction::Own))?;
        let (inputs, outputs) = (read.inputs(), read.outputs());
        let mut infos = (TensorInfos::of(&inputs), TensorInfos::of(&outputs));
        order.declaration.inspect(|declaration| declaration.name_variant(&mut infos, order.shapes));
        let (bytes, sizes) = self.bytes(order, &read)?;
        // Few constants differ from those of the base.
        let own = if order.base.is_some() { bytes - sizes.weights } else { bytes };
        let staged = staged_bytes(&read);
        let peak = PeakBytes { own, staged, reading: reading.used() };
        order.room.iter().for_each(|room| room(peak));
        let mut taken = order.charge(own)?;
        let (mut memory, staged) = self.reserve(order, bytes, staged)?;
        self.make_room(order, own);
        let loaded = match order.base {
            Some(base) => self.node.engine.load_sharing(read, &*base.loaded()?)?,
            None => self.node.engine.load(read, spec.measure)?,
        };
        drop((reading, staged)); // the weights are on the device
        let shared = sizes.weights.saturating_sub(loaded.own_bytes());
        memory.shrink(bytes.saturating_sub(if order.base.is_some() { shared } else { 0 }));
        order.resize_charge(&mut taken, memory.bytes())?;
        let (inputs, outputs) = infos;
        let node = self.node.clone();
        let parts = Parts { inputs, outputs, sizes, loaded, node, memory, taken };
        Ok(Variant::new(parts, [spec.instances.rt, spec.instances.be])?)
    }

    /// Starts the processes of a model that is a program. Blocks until they are ready. Their memory
    /// is their own: none of the daemon's is reserved.
    ///
    /// # Errors
    ///
    /// Errors of the program; `Unavailable` if the daemon ends meanwhile.
    pub(crate) fn start(&self, spec: &ModelSpec, program: &Program) -> Result<Arc<Variant>> {
        let of = |error: Error| {
            error.map_text(|text| format!("model {}/{}: {text}", spec.name, spec.version))
        };
        let instances = [spec.instances.rt, spec.instances.be];
        let wanted = ProcessModelSpec {
            program,
            model: spec.name.as_str(),
            version: spec.version,
            device: &self.node.name,
            instances,
            max_bytes: self.message_bytes,
            max_batch: spec.max_batch(),
            residents: self.residents_of(program).map_err(of)?,
            suspensions: self.observer.suspensions.get(),
            gpu: self.node.engine.uuid(),
            checkpoints: self.observer.checkpoints.get(),
        };
        let is_closing = || self.closing.load(Ordering::SeqCst);
        let loaded = Arc::new(ProcessModel::start(&wanted, &is_closing).map_err(of)?);
        let (inputs, outputs) = (loaded.inputs().clone(), loaded.outputs().clone());
        let (node, sizes) = (self.node.clone(), Sizes { weights: 0, instance: 0 });
        let memory = self.budget.reserve("a process", 0)?;
        Variant::new(Parts { inputs, outputs, sizes, loaded, node, memory, taken: None }, instances)
    }

    /// Returns the processes that are on the GPU on demand, if the program's are.
    fn residents_of(&self, program: &Program) -> Result<Option<&Arc<Residents>>> {
        if !program.is_on_demand() {
            return Ok(None);
        }
        let without = || {
            let why = "process.residency = \"on-demand\" requires guests.listen = true (reef serve --guests)";
            Error::Invalid(why.into())
        };
        // Without guests only the daemon's own networks move.
        let has_guests = self.observer.suspensions.get().is_some();
        self.observer.residents.get().filter(|_| has_guests).ok_or_else(without).map(Some)
    }

    /// Has best-effort programs leave the device where a real-time model needs their memory. A
    /// refusal is not an error yet: the device decides.
    fn make_room(&self, order: &VariantOrder<'_>, bytes: u64) {
        let policy = self.observer.memory_policy.get();
        let needed = policy.zip(self.node.engine.uuid()).filter(|_| order.spec.instances.rt > 0);
        if let Some((policy, device)) = needed
            && let Err(why) = policy.make_room(device, bytes)
        {
            tracing::debug!(model = order.title(), why, "no room was made");
        }
    }

    /// Returns a budget for reading a model's files.
    pub(crate) fn read_budget(&self, spec: &ModelSpec) -> models::Budget {
        self.host.part(self.max_bytes_of(spec))
    }

    /// Maximum number of bytes of a model in addition to its uploaded files, which may be in memory
    /// too; 0 means no limit.
    fn max_bytes_of(&self, spec: &ModelSpec) -> u64 {
        let files = spec.upload.as_ref().map_or(0, |upload| upload.bytes());
        match self.model_bytes {
            0 => 0,
            max => max.saturating_sub(files).max(1),
        }
    }

    /// Returns its maximum size, which must be within a model's limit.
    fn bytes(&self, order: &VariantOrder<'_>, read: &models::Model) -> VariantResult<(u64, Sizes)> {
        let sizes = self.node.engine.sizes(read);
        let instances = (order.spec.instances.rt + order.spec.instances.be) as u64;
        let instances = instances.saturating_mul(sizes.instance);
        let own = if order.base.is_some() { 0 } else { sizes.weights }; // few constants differ
        let own = instances.saturating_add(own);
        let max = self.max_bytes_of(order.spec);
        within(&order.title(), own.saturating_add(order.kept), max)?;
        within(&order.title(), own.saturating_add(order.taken), max)
            .map_err(with_eviction(Eviction::Any))?;
        Ok((sizes.weights.saturating_add(instances), sizes))
    }

    /// Reserves `bytes` of the device and, while it is loaded, `staged` bytes of the host.
    fn reserve(
        &self,
        order: &VariantOrder<'_>,
        bytes: u64,
        staged: u64,
    ) -> VariantResult<(Reservation, Reservation)> {
        let loading = format!("{}, while it is loaded,", order.title());
        let freed = order.taken.saturating_sub(order.kept);
        let fits = self.budget.fits_without(freed, bytes)
            && self.host.fits_without(freed, bytes.saturating_add(staged));
        let eviction = if fits { Eviction::Any } else { Eviction::None };
        let of = |budget: &Budget, bytes| {
            budget.reserve(&loading, bytes).map_err(with_eviction(eviction))
        };
        Ok((of(&self.budget, bytes)?, of(&self.host, staged)?))
    }
}

/// Returns the host memory in bytes for the largest layer on its way to the device: a copy, and
/// another one in the device's layout.
fn staged_bytes(model: &models::Model) -> u64 {
    2 * model.largest_constant_bytes() as u64
}

impl VariantOrder<'_> {
    /// Returns its name for errors.
    fn title(&self) -> String {
        let model = format!("model {}/{}", self.spec.name, self.spec.version);
        match (self.declaration.filter(|declared| declared.is_open()), self.shapes) {
            (Some(declared), Some(shapes)) => format!("{model} for {}", declared.show(shapes)),
            _ => model,
        }
    }

    fn read(&self, budget: &models::Budget) -> Result<models::Model> {
        match (self.declaration, self.shapes) {
            (Some(declaration), Some(shapes)) => self.spec.open_shaped(declaration, shapes, budget),
            (declaration, _) => self.spec.open(declaration, budget),
        }
    }

    /// Charges its principal, before anything of others is evicted for it.
    fn charge(&self, bytes: u64) -> VariantResult<Option<MemoryReservation>> {
        let Some((tenant, max)) = self.payer else { return Ok(None) };
        within(&self.title(), bytes, max.max(1))?; // 0 would be no limit
        tenant.take_memory(bytes, max).map(Some).map_err(|error| {
            let freed = self.taken.saturating_sub(self.kept);
            let eviction = if tenant.memory().saturating_add(bytes) > max {
                Eviction::Own
            } else if tenant.fits_among_others(freed, bytes) {
                Eviction::Others
            } else {
                Eviction::None
            };
            with_eviction(eviction)(error)
        })
    }

    fn resize_charge(
        &self,
        taken: &mut Option<MemoryReservation>,
        bytes: u64,
    ) -> VariantResult<()> {
        let Some((taken, (_, max))) = taken.as_mut().zip(self.payer) else { return Ok(()) };
        taken.resize(bytes, max).map_err(with_eviction(Eviction::Own))
    }
}
