//! One operation: its kind, its inputs and its output.

use super::array::{Array, Values};
use super::kinds::attention::Attention;
use super::kinds::contract::Contract;
use super::kinds::depthwise::Depthwise;
use super::kinds::eight::Eight;
use super::kinds::finished::Finished;
use super::kinds::fold::Fold;
use super::kinds::indexed::{Gather, Scatter};
use super::kinds::job::Job;
use super::kinds::map::Map;
use super::kinds::movement::{Concat, Move};
use super::kinds::row_map::RowMap;
use super::kinds::rows::{Scan, TopK};
use super::kinds::suppress::Suppress;
use super::spec::Spec;
use super::view::MAX_ELEMENTS;
use reef_core::{Error, Result};
use std::ops::Range;

/// Kind of an operation.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each is described at its type")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Kind {
    Map(Map),
    Move(Move),
    Concat(Concat),
    Fold(Fold),
    Contract(Contract),
    Finished(Finished),
    Gather(Gather),
    Scatter(Scatter),
    RowMap(RowMap),
    Scan(Scan),
    TopK(TopK),
    Attention(Attention),
    Depthwise(Depthwise),
    Eight(Eight),
    Suppress(Suppress),
}

/// An operation on tensors: `output = kind(inputs)`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TensorOp {
    /// Kind of the operation.
    pub kind: Kind,
    /// Inputs.
    pub inputs: Vec<Spec>,
    /// Output.
    pub output: Spec,
}

impl TensorOp {
    /// The kind's name, in lower case.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Map(_) => "map",
            Kind::Move(_) => "move",
            Kind::Concat(_) => "concat",
            Kind::Fold(_) => "fold",
            Kind::Contract(_) => "contract",
            Kind::Finished(_) => "finished",
            Kind::Gather(_) => "gather",
            Kind::Scatter(_) => "scatter",
            Kind::RowMap(_) => "row_map",
            Kind::Scan(_) => "scan",
            Kind::TopK(_) => "top_k",
            Kind::Attention(_) => "attention",
            Kind::Depthwise(_) => "depthwise",
            Kind::Eight(_) => "eight",
            Kind::Suppress(_) => "suppress",
        }
    }

    /// Checks that shapes fit each other, and that nothing outside of the inputs is read. Sizes
    /// come from files, so a caller checks an operation before it runs it.
    ///
    /// # Errors
    ///
    /// `Invalid` names the fault.
    pub fn check(&self) -> Result<()> {
        let Self { kind, inputs, output } = self;
        for spec in inputs.iter().chain([output]) {
            if spec.elements() > MAX_ELEMENTS {
                return Err(Error::invalid(
                    "tensor",
                    format!("must have at most {MAX_ELEMENTS} elements, got {spec}"),
                ));
            }
        }
        match kind {
            Kind::Map(op) => op.check(inputs, output),
            Kind::Move(op) => op.check(inputs, output),
            Kind::Concat(op) => op.check(inputs, output),
            Kind::Fold(op) => op.check(inputs, output),
            Kind::Contract(op) => op.check(inputs, output),
            Kind::Finished(op) => op.check(inputs, output),
            Kind::Gather(op) => op.check(inputs, output),
            Kind::Scatter(op) => op.check(inputs, output),
            Kind::RowMap(op) => op.check(inputs, output),
            Kind::Scan(op) => op.check(inputs, output),
            Kind::TopK(op) => op.check(inputs, output),
            Kind::Attention(op) => op.check(inputs, output),
            Kind::Depthwise(op) => op.check(inputs, output),
            Kind::Eight(op) => op.check(inputs, output),
            Kind::Suppress(op) => op.check(inputs, output),
        }
    }

    /// Outputs that are computed together: a range for [`compute`](Self::compute) holds whole
    /// groups of them.
    pub fn grain(&self) -> usize {
        match &self.kind {
            Kind::RowMap(op) => op.width,
            Kind::Scan(op) => op.grain(),
            Kind::TopK(op) => op.k,
            Kind::Attention(op) => op.grain(),
            Kind::Suppress(op) => op.grain(),
            _ => 1,
        }
    }

    /// Steps of a loop that one output takes, about.
    pub fn cost(&self) -> usize {
        match &self.kind {
            Kind::Map(op) => 4 * op.formula.0.len(),
            Kind::Move(_) | Kind::Concat(_) => 1,
            Kind::Fold(op) => 16 + op.folded.len(),
            Kind::Contract(op) => 1 + op.summed[0].len(),
            Kind::Finished(op) => 1 + op.contract.summed[0].len() + 4 * op.formula.0.len(),
            Kind::Gather(_) => 32,
            // All updates are seen once, by however many outputs are computed together.
            Kind::Scatter(_) => 1 + self.inputs[2].elements() / self.output.elements().max(1),
            Kind::RowMap(op) => 8 * op.terms.len(),
            Kind::Scan(_) => 4,
            Kind::TopK(op) => 32 * op.len / op.k,
            Kind::Attention(op) => op.cost(),
            Kind::Depthwise(op) => 1 + op.taps(),
            Kind::Eight(op) => 1 + op.terms(),
            // Each place's box is compared with all of a list.
            Kind::Suppress(op) => op.len,
        }
    }

    /// The outputs of `range`, from all of the inputs; `None` if `stop` says so, which is asked
    /// every few microseconds.
    ///
    /// # Errors
    ///
    /// `Invalid` if the operation is not sound ([`check`](Self::check)), the inputs don't match its
    /// description, or the range is not one of whole groups inside of the output.
    pub fn compute(
        &self,
        inputs: &[Values<'_>],
        range: Range<usize>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Array>> {
        self.check()?;
        let is_described = inputs.len() == self.inputs.len()
            && inputs
                .iter()
                .zip(&self.inputs)
                .all(|(values, spec)| values.len() == spec.elements());
        let whole =
            range.start.is_multiple_of(self.grain()) && range.len().is_multiple_of(self.grain());
        if !is_described || !whole || range.end > self.output.elements() {
            return Err(Error::invalid(
                "outputs",
                format!("{range:?} cannot be of {} to {}", self.name(), self.output),
            ));
        }
        Ok(self.compute_checked(inputs, range, stop))
    }

    /// As [`compute`](Self::compute), without its checks: for devices, which check when they bind
    /// an operation.
    ///
    /// # Panics
    ///
    /// If a check would have failed.
    pub fn compute_checked(
        &self,
        inputs: &[Values<'_>],
        range: Range<usize>,
        stop: &dyn Fn() -> bool,
    ) -> Option<Array> {
        let output = Array::with_capacity(self.output.element, range.len());
        let job = Job { inputs, range, output, stop };
        match &self.kind {
            Kind::Map(op) => op.compute(&self.inputs, &self.output, job),
            Kind::Move(op) => op.compute(job),
            Kind::Concat(op) => op.compute(job),
            Kind::Fold(op) => op.compute(job),
            Kind::Contract(op) => op.compute(job),
            Kind::Finished(op) => op.compute(&self.inputs, &self.output, job),
            Kind::Gather(op) => op.compute(job),
            Kind::Scatter(op) => op.compute(job),
            Kind::RowMap(op) => op.compute(&self.inputs, &self.output, job),
            Kind::Scan(op) => op.compute(job),
            Kind::TopK(op) => op.compute(job, &self.inputs[0]),
            Kind::Attention(op) => op.compute(job),
            Kind::Depthwise(op) => op.compute(job),
            Kind::Eight(op) => op.compute(&self.inputs, job),
            Kind::Suppress(op) => op.compute(job),
        }
    }
}
