//! Making a model's networks: those that are wanted from the beginning, and those for shapes of
//! requests.

use crate::error::{Error, Result};
use crate::models::declaration::{Declaration, Shapes, rows_of};
use crate::models::loaded_model::{LoadedModel, Parts};
use crate::models::model_spec::ModelSpec;
use crate::models::shaped::factory::{InTheWay, Maker, Order};
use crate::models::shaped::variant::Variant;
use crate::models::shaped::variants::Variants;
use crate::observe::stats::Stats;
use crate::tenants::tenant::Tenant;
use std::sync::Arc;

impl LoadedModel {
    /// Reads it, makes the networks that are wanted from the beginning, and starts its lanes.
    ///
    /// # Errors
    ///
    /// What is wrong with its files; `Exhausted`; the device's.
    pub(crate) fn load(
        spec: ModelSpec,
        maker: Arc<Maker>,
        variants: Variants,
        stats: Arc<Stats>,
        queue: usize,
    ) -> Result<Arc<Self>> {
        let declaration = spec.declared(&maker.reading(&spec))?;
        let named = named_shapes(&spec, declaration.as_ref())?;
        let order = Order {
            spec: &spec,
            declaration: declaration.as_ref(),
            shapes: named.first(),
            base: None,
            taken: 0,
            kept: 0,
            payer: None,
        };
        let base = maker.make(&order)?;
        variants.pin(base.shapes(), base.clone());
        check_rows(&spec, declaration.as_ref())?;
        let mut ahead = widened(&spec, &[vec![base.shapes()], named.clone()].concat());
        let wide = ahead.clone();
        ahead.retain(|shapes| *shapes != base.shapes());
        for shapes in ahead {
            let (taken, base) = (variants.bytes(), Some(&*base));
            let order = Order { shapes: Some(&shapes), base, taken, kept: taken, ..order };
            let made = maker.make(&order)?;
            variants.pin(shapes, made);
        }
        if spec.max_batch() > 1 {
            wide.iter().try_for_each(|shapes| check_outputs(&spec, &variants, shapes))?;
        }
        Self::start(Parts { spec, base, variants, declaration, maker, stats }, queue)
    }

    /// Makes the network for these shapes, for a principal that pays at most `most` bytes. Blocks.
    ///
    /// # Errors
    ///
    /// What is wrong with the shapes; `Exhausted`; the device's; `Unavailable` if that is lost.
    pub(crate) fn make(
        &self,
        shapes: &Shapes,
        who: &Arc<Tenant>,
        most: u64,
    ) -> Result<Arc<Variant>> {
        self.made(shapes, who, most).map_err(|error| self.node().told(error))
    }

    fn made(&self, shapes: &Shapes, who: &Arc<Tenant>, most: u64) -> Result<Arc<Variant>> {
        loop {
            if let Some(made) = self.variants.get(shapes, &who.who) {
                return Ok(made); // by another request of its principal
            }
            if self.is_retired() {
                return Err(Error::Unavailable("the model is being unloaded".into()));
            }
            if !self.variants.make_room(&who.who) {
                return Err(Error::Exhausted(format!(
                    "{}: others have all its shapes",
                    self.title()
                )));
            }
            let order = Order {
                spec: &self.spec,
                declaration: self.declaration.as_ref(),
                shapes: Some(shapes),
                base: Some(&self.base),
                taken: self.variants.bytes(),
                kept: self.variants.pinned_bytes(),
                payer: Some((who, most)),
            };
            let refused = match self.maker.make(&order) {
                Ok(made) => return Ok(self.variants.insert(shapes.clone(), &who.who, made)),
                Err(refused) => refused,
            };
            let has_gone = match refused.in_the_way {
                InTheWay::Nothing => false,
                InTheWay::Own => self.variants.give_up_own(&who.who),
                InTheWay::Any => self.variants.give_up(&who.who),
            };
            if !has_gone {
                return Err(refused.error);
            }
        }
    }
}

/// Refuses to batch what has no rows.
fn check_rows(spec: &ModelSpec, declaration: Option<&Declaration>) -> Result<()> {
    let fixed = match declaration {
        _ if spec.max_batch() <= 1 => None,
        Some(declaration) => {
            declaration.without_rows().map(|name| format!("that of {name} is fixed"))
        }
        None => Some("its are fixed".into()),
    };
    let wrong = |why: String| {
        let text = format!("the first size of all tensors has to be open, {why}");
        Err(not_batched(spec, &text))
    };
    fixed.map_or(Ok(()), wrong)
}

/// Refuses to batch what has not one row of each output for each row of its inputs.
fn check_outputs(spec: &ModelSpec, variants: &Variants, shapes: &Shapes) -> Result<()> {
    let Some((rows, variant)) = rows_of(shapes).and_then(|rows| variants.with_rows(shapes, rows))
    else {
        return Ok(());
    };
    let wrong = variant.outputs.each.iter().find(|info| info.shape.first() != Some(&(rows as i64)));
    wrong.map_or(Ok(()), |info| {
        let (name, shape) = (&info.name, &info.shape);
        let text = format!("output {name} is of shape {shape:?} for {rows} rows");
        Err(not_batched(spec, &text))
    })
}

fn not_batched(spec: &ModelSpec, why: &str) -> Error {
    Error::Invalid(format!("model {}/{}: max_batch: {why}", spec.name, spec.version))
}

/// These, and for requests that run together the same with 1, 2, 4 rows and so on, up to the most.
fn widened(spec: &ModelSpec, named: &[Shapes]) -> Vec<Shapes> {
    let (most, mut all) = (spec.max_batch(), named.to_vec());
    let widths = || (0..usize::BITS).map(|n| 1 << n).take_while(|rows| *rows < most).chain([most]);
    for shapes in named.iter().filter(|_| most > 1) {
        for rows in widths() {
            let wide = |sizes: &Vec<usize>| [&[rows], &sizes[1..]].concat();
            all.push(shapes.iter().map(wide).collect());
        }
    }
    all.sort();
    all.dedup();
    all
}

/// The shapes that networks are made for ahead, the usual ones first; none if the source doesn't
/// say what is open.
fn named_shapes(spec: &ModelSpec, declaration: Option<&Declaration>) -> Result<Vec<Shapes>> {
    let of = |error: Error| {
        error.map(|text| format!("model {}/{}: shapes: {text}", spec.name, spec.version))
    };
    let Some(declaration) = declaration else {
        let why = Error::Invalid("no size of it is open".into());
        return if spec.shapes.is_empty() { Ok(Vec::new()) } else { Err(of(why)) };
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
