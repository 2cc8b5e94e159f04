//! Networks of a file whose sizes requests choose: one for each set of them.

use super::builder::ModelBuilder;
use super::weights::Weights;
use crate::errors::error::Result;
use reef_op::Operators;
use reef_op::tensor::Array;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sizes of inputs by their names.
type Shapes = BTreeMap<String, Vec<usize>>;

/// Values of inputs, with their sizes, by their names.
type Values = BTreeMap<String, (Vec<usize>, Array)>;

/// A set of sizes, and of values that decide about shapes.
#[derive(Debug, Clone, PartialEq)]
struct Choice {
    shapes: Shapes,
    values: Values,
}

/// Networks of one ONNX file on a device, one for each set of sizes that was asked for.
///
/// Each is made when its sizes are asked for the first time, and shares the constants that it has
/// in common with the first one. At most a number of them are kept: then the one that was used the
/// longest ago is dropped. Its memory is free when its instances are dropped.
///
/// ```no_run
/// use reef_op::Operators;
/// use reef_models::{Model, Network, Result};
///
/// fn two<D: Operators>(device: &D) -> Result<[Network<D>; 2]> {
///     let texts = Model::open("bert.onnx").shape("batch", &[1]).variants(device, 16)?;
///     let of = |tokens| texts.get([("ids".to_owned(), vec![1, tokens])])?.network();
///     Ok([of(8)?, of(31)?])
/// }
/// ```
#[derive(Debug)]
pub struct Variants<'a, D: Operators> {
    builder: ModelBuilder<'a>,
    first: Weights<D>,
    max: usize,
    /// The most recently used one is last.
    made: Mutex<VecDeque<(Choice, Weights<D>)>>,
}

impl<'a> ModelBuilder<'a> {
    /// Reads the network for its usual sizes, and brings its constants onto `device`. Sizes that
    /// weren't chosen stay open: [`Variants::get`] makes networks for them, of which at most `max`
    /// are kept.
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read) and of [`Model::weights`](super::model::Model::weights).
    pub fn variants<D: Operators>(self, device: &D, max: usize) -> Result<Variants<'a, D>> {
        let first = self.clone().read()?.weights(device)?;
        Ok(Variants { builder: self, first, max, made: Mutex::default() })
    }
}

impl<D: Operators> Variants<'_, D> {
    /// Constants of the network for its usual sizes.
    pub fn usual(&self) -> &Weights<D> {
        &self.first
    }

    /// Constants of the network for these sizes, by names of inputs or of sizes.
    ///
    /// # Errors
    ///
    /// Errors of [`ModelBuilder::read`], if it can't have them; an error of the device.
    pub fn get(
        &self,
        shapes: impl IntoIterator<Item = (String, Vec<usize>)>,
    ) -> Result<Weights<D>> {
        self.get_for_values(shapes, &BTreeMap::new())
    }

    /// As [`get`](Self::get), also for these [values](ModelBuilder::values) of inputs that decide
    /// about shapes, such as a truth value that says whether a decoder has a cache. The usual
    /// network has values of its own.
    ///
    /// # Errors
    ///
    /// Errors of [`get`](Self::get).
    pub fn get_for_values(
        &self,
        shapes: impl IntoIterator<Item = (String, Vec<usize>)>,
        values: &BTreeMap<String, (Vec<usize>, Array)>,
    ) -> Result<Weights<D>> {
        let choice = Choice { shapes: shapes.into_iter().collect(), values: values.clone() };
        if let Some(found) = used(&mut self.lock(), &choice) {
            return Ok(found);
        }
        let builder = self.builder.clone().shapes(choice.shapes.clone()).values(values);
        let weights = builder.read()?.weights_sharing(&self.first)?;
        let mut made = self.lock();
        if let Some(found) = used(&mut made, &choice) {
            return Ok(found); // another thread made it meanwhile
        }
        made.push_back((choice, weights.clone()));
        let oldest = (made.len() > self.max).then(|| made.pop_front());
        drop(made);
        drop(oldest); // without the lock: the device frees its memory
        Ok(weights)
    }

    /// Number of networks that are kept, apart from the first one.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether there is none of them yet.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Choice, Weights<D>)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network for this choice, which is now the most recently used one.
fn used<D: Operators>(
    made: &mut VecDeque<(Choice, Weights<D>)>,
    choice: &Choice,
) -> Option<Weights<D>> {
    let at = made.iter().position(|(of, _)| of == choice)?;
    let found = made.remove(at)?;
    let weights = found.1.clone();
    made.push_back(found);
    Some(weights)
}
