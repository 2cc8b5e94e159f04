//! A formula of elements, one output at a time.

use super::formula::{Formula, Term};
use super::job::{Job, Outputs, TILE, with_domain};
use crate::tensor::element::Domain;
use crate::tensor::number::Number;
use crate::tensor::spec::Spec;
use crate::tensor::view::{View, can_broadcast};
use reef_core::{Error, Result};

/// `output[i] = formula(inputs[i])`; inputs are broadcast to the output.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Map {
    /// Formula of the elements.
    pub formula: Formula,
    /// Type of the numbers that it computes with.
    pub domain: Domain,
}

impl Map {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        if !self.formula.is_sound(inputs.len()) {
            return Err(Error::invalid(
                "formula",
                format!("{:?} cannot be of {} inputs", self.formula, inputs.len()),
            ));
        }
        match inputs.iter().find(|input| !can_broadcast(&input.dims, &output.dims)) {
            Some(input) => Err(not_broadcast(input, output)),
            None => Ok(()),
        }
    }

    pub(super) fn views(&self, inputs: &[Spec], output: &Spec) -> Result<Vec<View>> {
        let view = |input: &Spec| {
            let view = View::broadcast(&input.dims, &output.dims).map(|view| view.merged());
            view.ok_or_else(|| not_broadcast(input, output))
        };
        inputs.iter().map(view).collect()
    }

    pub(crate) fn compute(&self, inputs: &[Spec], output: &Spec, job: Job<'_>) -> Outputs {
        let views = self.views(inputs, output).ok()?;
        with_domain!(self.domain, T => self.run::<T>(&views, job))
    }

    fn run<T: Number>(&self, views: &[View], mut job: Job<'_>) -> Outputs {
        let mut tiles = vec![vec![T::default(); TILE.min(job.range.len())]; self.formula.0.len()];
        for range in job.tiles() {
            if job.stopped() {
                return None;
            }
            for (k, term) in self.formula.0.iter().enumerate() {
                let (before, tile) = tiles.split_at_mut(k);
                let tile = &mut tile[0][..range.len()];
                match *term {
                    Term::Input(input) => job.load(input, &views[input], range.start, tile),
                    other => term_of(other, before, tile),
                }
            }
            let result = &tiles[tiles.len() - 1][..range.len()];
            job.push(result);
        }
        Some(job.output)
    }
}

fn not_broadcast(input: &Spec, output: &Spec) -> Error {
    Error::invalid("input", format!("{:?} can't be broadcast to {:?}", input.dims, output.dims))
}

/// Computes a term from earlier ones.
pub(super) fn term_of<T: Number>(term: Term, before: &[Vec<T>], to: &mut [T]) {
    match term {
        Term::Input(_) => {}
        Term::Scalar(scalar) => to.fill(scalar.number()),
        Term::Unary(function, a) => {
            to.copy_from_slice(&before[a][..to.len()]);
            function.apply(to);
        }
        Term::Binary(function, a, b) => {
            to.copy_from_slice(&before[a][..to.len()]);
            function.apply(to, &before[b]);
        }
        Term::Select(which, a, b) => {
            let choices = before[which].iter().zip(&before[a]).zip(&before[b]);
            for (to, ((&which, &a), &b)) in to.iter_mut().zip(choices) {
                *to = if which != T::default() { a } else { b };
            }
        }
    }
}
