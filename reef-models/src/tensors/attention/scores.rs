//! Changes of scores before their softmax: scales, masks, biases.

use super::places::split_last;
use super::steps::Steps;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Binary, Element, Kind, Scalar, Spec, Term, View};

/// A change of a score, as the network has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// Times a number.
    Scale(f64),
    /// An element of a tensor is added.
    Add(Read),
    /// The score stays if the condition is `keep`, and becomes `other` if not.
    Choose { condition: Read, keep: bool, other: f32 },
}

impl Change {
    pub(super) fn reads(&self) -> Option<&Read> {
        match self {
            Self::Scale(_) => None,
            Self::Add(read) | Self::Choose { condition: read, .. } => Some(read),
        }
    }
}

/// A tensor that scores are changed with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Read {
    pub(super) storage: usize,
    pub(super) spec: Spec,
    /// View of the element that each score needs.
    pub(super) view: View,
}

/// Changes of the scores of rows of `len`, in order, until they are `storage`; and the product that
/// they come from.
pub(super) fn changes<'a>(
    steps: &Steps<'a>,
    storage: usize,
    len: usize,
) -> Option<(Vec<Change>, &'a TensorStep)> {
    let (mut changes, mut at) = (Vec::new(), steps.maker(storage)?);
    while let Kind::Map(_) = at.op.kind {
        let (scores, before) = of_map(at, len)?;
        changes.splice(..0, before);
        at = steps.maker_for(at.reads[scores], 1)?;
    }
    Some((changes, at))
}

/// Number of a map's input that has the scores, and their changes.
fn of_map(step: &TensorStep, len: usize) -> Option<(usize, Vec<Change>)> {
    let Kind::Map(map) = &step.op.kind else { return None };
    let all = step.op.output.elements();
    let last = map.formula.0.len().checked_sub(1)?;
    let single = |spec: &Spec| spec.element == Element::F32;
    let fits = single(&step.op.output) && step.op.output.dims.last() == Some(&len);
    let mut candidates = step
        .op
        .inputs
        .iter()
        .enumerate()
        .filter(|(_, spec)| single(spec) && spec.elements() == all);
    let found = candidates.find_map(|(scores, _)| {
        let mut changes = Vec::new();
        Formula { step, terms: &map.formula.0, scores }.changes(last, &mut changes)?;
        Some((scores, changes))
    });
    found.filter(|_| fits)
}

/// A formula, one input of which are the scores.
struct Formula<'a> {
    step: &'a TensorStep,
    terms: &'a [Term],
    scores: usize,
}

impl Formula<'_> {
    /// Adds the changes of the scores in term `at`.
    fn changes(&self, at: usize, changes: &mut Vec<Change>) -> Option<()> {
        match self.terms[at] {
            Term::Input(input) if input == self.scores => return Some(()),
            Term::Binary(Binary::Mul, a, b) => {
                let (factor, of) =
                    self.number(b).map(|x| (x, a)).or(self.number(a).map(|x| (x, b)))?;
                self.changes(of, changes)?;
                changes.push(Change::Scale(factor));
            }
            Term::Binary(Binary::Div, a, b) => {
                self.changes(a, changes)?;
                changes.push(Change::Scale(1.0 / self.number(b)?));
            }
            Term::Binary(Binary::Add, a, b) => {
                let read = |at| self.read(at, Element::F32);
                let (read, of) = read(b).map(|read| (read, a)).or(read(a).map(|read| (read, b)))?;
                self.changes(of, changes)?;
                changes.push(Change::Add(read));
            }
            Term::Select(which, a, b) => {
                let (keep, of, other) = match (self.number(a), self.number(b)) {
                    (None, Some(other)) => (true, a, other),
                    (Some(other), None) => (false, b, other),
                    _ => return None,
                };
                self.changes(of, changes)?;
                let condition = self.read(which, Element::Bool)?;
                changes.push(Change::Choose { condition, keep, other: other as f32 });
            }
            _ => return None,
        }
        Some(())
    }

    fn number(&self, at: usize) -> Option<f64> {
        match self.terms[at] {
            Term::Scalar(Scalar::Real(number)) => Some(number),
            Term::Scalar(Scalar::Whole(number)) => Some(number as f64),
            _ => None,
        }
    }

    /// An input of this type other than the scores.
    fn read(&self, at: usize, element: Element) -> Option<Read> {
        let Term::Input(input) = self.terms[at] else { return None };
        let spec = self.step.op.inputs[input].clone();
        let view = View::broadcast(&spec.dims, &self.step.op.output.dims)?;
        let fits = input != self.scores && spec.element == element && split_last(&view).is_some();
        fits.then(|| Read { storage: self.step.reads[input], spec, view })
    }
}
