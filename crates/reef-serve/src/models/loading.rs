//! Creation of a model's networks: at the load, and for request shapes.

use crate::class::Class;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::declaration::{Declaration, Shapes, rows_of};
use crate::models::loaded_model::{LoadedModel, Parts};
use crate::models::model_spec::ModelSpec;
use crate::models::placement::load_thread::run_on_thread;
use crate::models::shaped::factory::{Eviction, PeakBytes, VariantFactory, VariantOrder};
use crate::models::shaped::on_demand::OnDemand;
use crate::models::shaped::variant::Variant;
use crate::models::shaped::variants::Variants;
use crate::observe::stats::Stats;
use crate::residency::facts::Held;
use crate::residency::networks::Network;
use crate::tenants::tenant::Tenant;
use crate::tensor::TensorInfo;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Time that a move has to end once its device is lost.
const MOVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time that a request for new shapes waits for a network that is off its device.
const RETURN_TIMEOUT: Duration = Duration::from_secs(60);

impl LoadedModel {
    /// Reads the model, creates its first networks, and starts its workers.
    ///
    /// # Errors
    ///
    /// Errors of its files; `Exhausted`; errors of the device.
    pub(crate) fn load(
        spec: ModelSpec,
        factory: Arc<VariantFactory>,
        variants: Variants,
        stats: Arc<Stats>,
        queue: usize,
    ) -> Result<Arc<Self>> {
        if let Some(program) = spec.program() {
            let base = factory.start(&spec, program)?;
            let (declaration, on_demand) = (None, None);
            let parts = Parts { spec, base, variants, declaration, on_demand, factory, stats };
            return Self::start(parts, queue);
        }
        let declaration = spec.declared(&|| factory.read_budget(&spec))?;
        let named = named_shapes(&spec, declaration.as_ref())?;
        let on_demand = OnDemand::new(&spec, &factory)?;
        on_demand.iter().for_each(|on_demand| on_demand.set_first(named.first()));
        let make_room = |peak: PeakBytes| {
            on_demand.iter().for_each(|on_demand| on_demand.wait_for_room(&factory, peak));
        };
        let order = VariantOrder {
            spec: &spec,
            declaration: declaration.as_ref(),
            shapes: named.first(),
            base: None,
            taken: 0,
            kept: 0,
            payer: None,
            room: Some(&make_room),
        };
        let base = factory.make(&order)?;
        let usual = match &declaration {
            Some(declaration) => declaration.with_usual_values(base.shapes()),
            None => base.shapes(),
        };
        variants.pin(usual.clone(), base.clone());
        check_rows(&spec, declaration.as_ref())?;
        let mut ahead = with_batches(&spec, &[vec![usual.clone()], named.clone()].concat());
        let wide = ahead.clone();
        ahead.retain(|shapes| *shapes != usual);
        for shapes in ahead {
            let (taken, base) = (variants.bytes(), Some(&*base));
            let order = VariantOrder { shapes: Some(&shapes), base, taken, kept: taken, ..order };
            let made = factory.make(&order)?;
            variants.pin(shapes, made);
        }
        if spec.max_batch() > 1 {
            wide.iter().try_for_each(|shapes| check_outputs(&spec, &variants, shapes))?;
        }
        let parts = Parts { spec, base, variants, declaration, on_demand, factory, stats };
        let served = Self::start(parts, queue)?;
        if let Some(on_demand) = &served.on_demand {
            let weak = Arc::downgrade(&served);
            let network: Weak<dyn Network> = weak;
            on_demand.begin(network, served.variants.pinned_bytes());
        }
        Ok(served)
    }

    /// Creates the network for these shapes, for a principal that may be charged `max` bytes.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// Errors of the shapes; `Exhausted`; errors of the device; `Unavailable` if it is lost.
    pub(crate) fn make(
        &self,
        shapes: &Shapes,
        tenant: &Arc<Tenant>,
        max: u64,
    ) -> Result<Arc<Variant>> {
        self.get_or_make(shapes, tenant, max).map_err(|error| self.node().diagnose(error))
    }

    fn get_or_make(&self, shapes: &Shapes, tenant: &Arc<Tenant>, max: u64) -> Result<Arc<Variant>> {
        let is_over = || self.entries.is_over();
        let _stay = self.stay(Class::BestEffort, RETURN_TIMEOUT, &is_over)?;
        loop {
            if let Some(made) = self.variants.get(shapes, &tenant.principal) {
                return Ok(made); // by another request of its principal
            }
            if self.entries.is_over() {
                return Err(Error::Unavailable("the model is being unloaded".into()));
            }
            if !self.variants.make_room(&tenant.principal) {
                return Err(Error::Exhausted(format!(
                    "{}: other principals use all of its shapes",
                    self.title()
                )));
            }
            let order = VariantOrder {
                spec: &self.spec,
                declaration: self.declaration.as_ref(),
                shapes: Some(shapes),
                base: Some(&self.base),
                taken: self.variants.bytes(),
                kept: self.variants.pinned_bytes(),
                payer: Some((tenant, max)),
                room: None,
            };
            let refused = match self.factory.make(&order) {
                Ok(made) => {
                    return Ok(self.variants.insert(shapes.clone(), &tenant.principal, made));
                }
                Err(refused) => refused,
            };
            let has_gone = match refused.eviction {
                Eviction::None => false,
                Eviction::Own => self.variants.evict_own(&tenant.principal),
                Eviction::Others => self.variants.evict_of_others(&tenant.principal),
                Eviction::Any => self.variants.evict(&tenant.principal),
            };
            if !has_gone {
                return Err(refused.error);
            }
        }
    }
}

impl Network for LoadedModel {
    // The thread of a move alone holds the model: its last holder frees memory of the device.
    fn leave(self: Arc<Self>) -> Result<Held> {
        let node = self.node().clone();
        run_move(&node, move || {
            let Some(on_demand) = &self.on_demand else { return Ok(Held::new()) };
            on_demand.leave(|| {
                self.variants.expire(Duration::ZERO); // networks of shapes that requests chose
                let bytes = self.variants.pinned_bytes();
                self.free_variants();
                bytes
            })
        })
    }

    fn come_back(self: Arc<Self>) -> Result<()> {
        let node = self.node().clone();
        run_move(&node, move || {
            let Some(on_demand) = &self.on_demand else { return Ok(()) };
            on_demand.come_back(|| {
                let made = self.fill_variants(on_demand.first());
                let made = made.inspect_err(|_| self.free_variants());
                made.map_err(|error| self.node().diagnose(error))?;
                Ok(self.variants.pinned_bytes())
            })
        })
    }
}

/// Runs a move on a thread of its own, which is left behind if the device is lost and the move does
/// not end. No move begins on a lost device.
fn run_move<T: Send + 'static>(
    node: &Node,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let unended = || node.explain(Error::Failed("the move does not end".into()));
    if node.lost().is_some() {
        return Err(unended());
    }
    let mut lost_since = None;
    let abandons = || {
        node.lost()?;
        let since: Instant = *lost_since.get_or_insert_with(Instant::now);
        (since.elapsed() >= MOVE_TIMEOUT).then(unended)
    };
    run_on_thread("reef-move", work, drop, abandons)
}

impl LoadedModel {
    /// Frees the memory of all variants. Those that queued requests hold exist without it.
    fn free_variants(&self) {
        self.variants.all().iter().for_each(|(_, variant)| variant.leave());
        if let Err(error) = self.node().engine.trim() {
            tracing::warn!(model = self.title(), %error, "its memory is not all returned");
        }
    }

    /// Makes the networks of all variants anew, from its files. `first` has the shapes of the
    /// default network, if they are named.
    fn fill_variants(&self, first: Option<&Shapes>) -> Result<()> {
        let order = VariantOrder {
            spec: &self.spec,
            declaration: self.declaration.as_ref(),
            shapes: first,
            base: None,
            taken: 0,
            kept: 0,
            payer: None,
            room: None,
        };
        let made = self.factory.make(&order)?;
        self.base.fill(&made)?;
        for (shapes, variant) in self.variants.all() {
            if Arc::ptr_eq(&variant, &self.base) {
                continue;
            }
            let (taken, base) = (self.variants.bytes(), Some(&*self.base));
            let order = VariantOrder { shapes: Some(&shapes), base, taken, kept: taken, ..order };
            let made = self.factory.make(&order)?;
            variant.fill(&made)?;
        }
        Ok(())
    }
}

/// Refuses to batch a model without rows.
fn check_rows(spec: &ModelSpec, declaration: Option<&Declaration>) -> Result<()> {
    let fixed = match declaration {
        _ if spec.max_batch() <= 1 => None,
        Some(declaration) => {
            declaration.without_rows().map(|name| format!("but that of {name} is fixed"))
        }
        None => Some("but all are fixed".into()),
    };
    let wrong = |why: String| {
        let text = format!("the first size of all tensors must be open, {why}");
        Err(not_batched(spec, &text))
    };
    fixed.map_or(Ok(()), wrong)
}

/// Refuses to batch a model whose outputs do not have one row for each row of its inputs.
fn check_outputs(spec: &ModelSpec, variants: &Variants, shapes: &Shapes) -> Result<()> {
    let Some((rows, variant)) = rows_of(shapes).and_then(|rows| variants.with_rows(shapes, rows))
    else {
        return Ok(());
    };
    if variant.outputs.has_checks {
        return Err(not_batched(spec, "data decide how long a loop runs, for all rows at once"));
    }
    let mut outputs = variant.outputs.each.iter();
    let has_rows =
        |info: &&TensorInfo| info.shape.first() == Some(&(rows as i64)) && info.bound.is_none();
    let wrong = outputs.find(|info| !has_rows(info));
    wrong.map_or(Ok(()), |info| {
        if info.bound.is_some() {
            return Err(not_batched(spec, &format!("data decide about a size of {}", info.name)));
        }
        let (name, shape) = (&info.name, &info.shape);
        let text = format!(
            "output {name} must have {rows} rows for {rows} rows of input, got shape {shape:?}"
        );
        Err(not_batched(spec, &text))
    })
}

fn not_batched(spec: &ModelSpec, why: &str) -> Error {
    Error::Invalid(format!("model {}/{}: max_batch: {why}", spec.name, spec.version))
}

/// Returns these shapes and, if requests are batched, the same with 1, 2, 4 rows and so on, up to
/// the maximum.
fn with_batches(spec: &ModelSpec, named: &[Shapes]) -> Vec<Shapes> {
    let (max, mut all) = (spec.max_batch(), named.to_vec());
    let widths = || (0..usize::BITS).map(|n| 1 << n).take_while(|rows| *rows < max).chain([max]);
    for shapes in named.iter().filter(|_| max > 1) {
        for rows in widths() {
            let wide = |sizes: &Vec<usize>| [&[rows], &sizes[1..]].concat();
            all.push(shapes.iter().map(wide).collect());
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Returns the shapes of the first networks, the default one first; none if the source does not
/// declare open sizes. An ONNX file that doesn't is read for its only shapes: that of a sequence is
/// its number of tensors.
fn named_shapes(spec: &ModelSpec, declaration: Option<&Declaration>) -> Result<Vec<Shapes>> {
    let of = |error: Error| {
        error.map_text(|text| format!("model {}/{}: shapes: {text}", spec.name, spec.version))
    };
    let Some(declaration) = declaration else {
        let why = Error::Invalid("must have an open size".into());
        let is_read = spec.shapes.len() == 1 && spec.source.is_onnx();
        return if spec.shapes.is_empty() || is_read { Ok(Vec::new()) } else { Err(of(why)) };
    };
    let named = spec.shapes.iter();
    named
        .map(|given| {
            let shapes = declaration.complete(given)?;
            declaration.check(&shapes).map(|()| shapes)
        })
        .collect::<Result<_>>()
        .map_err(of)
}
