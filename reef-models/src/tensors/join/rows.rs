//! Formulas of rows with what these rows become together: a softmax or a normalisation as one step.

use super::readers::Readers;
use super::row_cluster::{Makes, Rows, cluster};
use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Kind, RowMap, RowTerm, Spec, TensorOp, Term};
use std::collections::HashMap;
use std::sync::Arc;

/// `steps` with formulas joined to the folds of rows that they need, where `takes` takes that. The
/// last ones take in as much as they can.
pub(super) fn join(
    steps: Vec<TensorStep>,
    outputs: &[Port],
    takes: &dyn Fn(&TensorOp) -> bool,
) -> Vec<TensorStep> {
    let readers = Readers::of(&steps, outputs);
    let makers: HashMap<usize, (usize, &TensorStep)> =
        steps.iter().enumerate().map(|(k, step)| (step.writes, (k, step))).collect();
    let mut gone = vec![false; steps.len()];
    let mut made: HashMap<usize, TensorStep> = HashMap::new();
    for (k, step) in steps.iter().enumerate().rev() {
        let Some(rows) = Rows::of(step).filter(|_| !gone[k]) else { continue };
        let inside = cluster(rows, (k, step), &makers, &readers);
        let Some(joined) = one(rows, step, &inside).filter(|joined| takes(&joined.op)) else {
            continue;
        };
        inside.keys().for_each(|storage| gone[makers[storage].0] = true);
        made.insert(k, joined);
    }
    let kept = steps.iter().enumerate().filter(|(k, _)| !gone[*k]);
    kept.map(|(k, step)| made.remove(&k).unwrap_or_else(|| step.clone())).collect()
}

/// `last` with all that is `inside`, if there is a fold among it.
fn one(rows: Rows, last: &TensorStep, inside: &HashMap<usize, &TensorStep>) -> Option<TensorStep> {
    let mut join = Join {
        rows,
        last,
        inside,
        terms: Vec::new(),
        known: HashMap::new(),
        reads: Vec::new(),
        inputs: Vec::new(),
    };
    let end = join.step(last)?;
    let Join { terms, reads, inputs, .. } = join;
    let folds = terms.iter().any(|term| matches!(term, RowTerm::Fold(..)));
    if !folds || end + 1 != terms.len() {
        return None;
    }
    let kind = Kind::RowMap(RowMap { width: rows.width, terms });
    let op = TensorOp { kind, inputs, output: last.op.output.clone() };
    op.check().ok()?;
    Some(TensorStep { name: last.name.clone(), op: Arc::new(op), reads, writes: last.writes })
}

/// Terms that are put together, and what they read.
struct Join<'a> {
    rows: Rows,
    last: &'a TensorStep,
    inside: &'a HashMap<usize, &'a TensorStep>,
    terms: Vec<RowTerm>,
    /// The term that a storage has become.
    known: HashMap<usize, usize>,
    reads: Vec<usize>,
    inputs: Vec<Spec>,
}

impl Join<'_> {
    fn push(&mut self, term: RowTerm) -> usize {
        self.terms.push(term);
        self.terms.len() - 1
    }

    /// The term that is what `step` makes.
    fn step(&mut self, step: &TensorStep) -> Option<usize> {
        let makes = self.rows.makes(step)?;
        match &step.op.kind {
            Kind::Fold(fold) => {
                let of = self.input(step, 0, Makes::Elements)?;
                Some(self.push(RowTerm::Fold(fold.kind, of)))
            }
            Kind::Map(map) => {
                let mut at: Vec<usize> = Vec::with_capacity(map.formula.0.len());
                for term in &map.formula.0 {
                    let number = match *term {
                        Term::Input(input) => self.input(step, input, makes)?,
                        other => self.push(RowTerm::Element(other.renumbered(|k| at[k]))),
                    };
                    at.push(number);
                }
                at.last().copied()
            }
            _ => None,
        }
    }

    /// The term that is what `step`, which makes `makes`, reads as its input of this number.
    fn input(&mut self, step: &TensorStep, number: usize, makes: Makes) -> Option<usize> {
        let storage = step.reads[number];
        if let Some(maker) = self.inside.get(&storage) {
            if let Some(&known) = self.known.get(&storage) {
                return Some(known);
            }
            let made = self.step(maker)?;
            self.known.insert(storage, made);
            return Some(made);
        }
        let spec = self.input_as_read(step, &step.op.inputs[number], makes)?;
        let same = self
            .reads
            .iter()
            .zip(&self.inputs)
            .position(|(&s, known)| (s, known) == (storage, &spec));
        let input = same.unwrap_or_else(|| {
            self.reads.push(storage);
            self.inputs.push(spec);
            self.reads.len() - 1
        });
        let term = RowTerm::Element(Term::Input(input));
        let there = self.terms.iter().position(|known| *known == term);
        Some(there.unwrap_or_else(|| self.push(term)))
    }

    /// An input that `step` reads, as the joined step reads it.
    fn input_as_read(&self, step: &TensorStep, input: &Spec, makes: Makes) -> Option<Spec> {
        let (output, own) = (&self.last.op.output.dims, &step.op.output.dims);
        let of = |dims: Vec<usize>| Some(Spec { element: input.element, dims });
        let fold = matches!(step.op.kind, Kind::Fold(_));
        let one_each = || {
            let mut dims = output.clone();
            *dims.last_mut().expect("rows have an axis") = 1;
            dims
        };
        match makes {
            _ if input.elements() == 1 => of(Vec::new()),
            Makes::Elements if fold || input.elements() == step.op.output.elements() => {
                of(output.clone())
            }
            Makes::Elements if own == output || input.dims.len() <= 1 => of(input.dims.clone()),
            Makes::OneOfARow if input.elements() == self.rows.count => of(one_each()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::joined::joined;
    use crate::memory::budget::Budget;
    use crate::memory::ledger::Ledger;
    use crate::tensors::builder::Builder;
    use crate::tensors::model::TensorModel;
    use crate::tensors::value::Value;
    use reef_op::tensor::{Array, Binary, Element, Kind, Spec};

    fn model(write: impl FnOnce(&mut Builder<'_>, &Value) -> Vec<Value>) -> TensorModel {
        let ledger = Ledger::new(&Budget::default());
        let mut b = Builder::new(&ledger);
        let x = b.input("x", Spec { element: Element::F32, dims: vec![2, 3, 8] }).unwrap();
        let outputs = write(&mut b, &x).into_iter().enumerate();
        b.finish("m", outputs.map(|(k, value)| (format!("y{k}"), value)).collect()).unwrap()
    }

    /// Names of the joined steps, which give what the others give.
    fn names(mut model: TensorModel) -> Vec<&'static str> {
        let x = Array::F32((0..48).map(|i| (i * 7 % 11) as f32 * 0.37 - 1.0).collect());
        let want = model.execute(std::slice::from_ref(&x)).unwrap();
        model.steps =
            joined(&model.steps, &model.outputs, &|op| matches!(op.kind, Kind::RowMap(_)));
        assert_eq!(format!("{:?}", model.execute(&[x]).unwrap()), format!("{want:?}"));
        model.steps.iter().map(|step| step.op.name()).collect()
    }

    #[test]
    fn a_softmax_is_one_step() {
        let made = model(|b, x| vec![b.softmax(x, &[2], false).unwrap()]);
        assert_eq!(names(made), ["row_map"]);
        let logarithm = model(|b, x| vec![b.softmax(x, &[2], true).unwrap()]);
        assert_eq!(names(logarithm), ["row_map"]);
    }

    #[test]
    fn a_normalisation_with_its_residual_is_one_step() {
        let made = model(|b, x| {
            let gain = b.constant(vec![8], Array::F32((0..8).map(|i| i as f32).collect())).unwrap();
            let twice = b.binary(Binary::Add, x, x).unwrap();
            let [normal, ..] = b.standardise(&twice, &[2], 1e-5).unwrap();
            vec![b.scaled(&normal, Some(&gain), Some(&gain)).unwrap()]
        });
        assert_eq!(names(made), ["row_map"]);
    }

    #[test]
    fn value_with_other_readers_stays() {
        let made = model(|b, x| {
            let twice = b.binary(Binary::Add, x, x).unwrap();
            let [normal, mean, _] = b.standardise(&twice, &[2], 1e-5).unwrap();
            vec![normal, twice, mean]
        });
        assert_eq!(names(made), ["map", "fold", "map", "row_map"]);
    }

    #[test]
    fn columns_are_no_rows() {
        let made = model(|b, x| vec![b.softmax(x, &[1], false).unwrap()]);
        let count = made.steps().len();
        assert_eq!(names(made).len(), count);
    }
}
