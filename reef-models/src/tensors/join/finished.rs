//! Sums of products with the formula behind them.

use super::readers::Readers;
use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Contract, Domain, Element, Finished, Formula, Kind, Map, TensorOp, Term};
use std::collections::HashMap;
use std::sync::Arc;

/// `steps` with formulas joined to the sums that they alone read, where `takes` takes that.
pub(super) fn join(
    steps: &[TensorStep],
    outputs: &[Port],
    takes: &dyn Fn(&TensorOp) -> bool,
) -> Vec<TensorStep> {
    let readers = Readers::of(steps, outputs);
    let mut kept: Vec<Option<TensorStep>> = Vec::with_capacity(steps.len());
    let mut sums: HashMap<usize, usize> = HashMap::new();
    for step in steps {
        let made = step.reads.iter().find_map(|&storage| {
            let at = *sums.get(&storage).filter(|_| readers.all(storage).len() == 1)?;
            let joined = finished(kept[at].as_ref()?, step).filter(|joined| takes(&joined.op))?;
            Some((at, joined))
        });
        if matches!(step.op.kind, Kind::Contract(_)) {
            sums.insert(step.writes, kept.len());
        }
        let step = match made {
            Some((at, joined)) => {
                kept[at] = None;
                joined
            }
            None => step.clone(),
        };
        kept.push(Some(step));
    }
    kept.into_iter().flatten().collect()
}

/// `reader` behind the sums that `maker` makes, as one operation.
fn finished(maker: &TensorStep, reader: &TensorStep) -> Option<TensorStep> {
    let (Kind::Contract(contract), Kind::Map(map)) = (&maker.op.kind, &reader.op.kind) else {
        return None;
    };
    let at = reader.reads.iter().position(|&read| read == maker.writes)?;
    if !are_singles(contract, map, [&maker.op, &reader.op]) {
        return None;
    }
    // The sum comes first, and the others as they came.
    let others = || (0..reader.reads.len()).filter(|&k| k != at);
    let number = |k: usize| if k == at { 0 } else { 1 + k - usize::from(k > at) };
    let terms = map.formula.0.iter().map(|term| match *term {
        Term::Input(k) => Term::Input(number(k)),
        other => other,
    });
    let finished = Finished { contract: contract.clone(), formula: Formula(terms.collect()) };
    let op = TensorOp {
        kind: Kind::Finished(finished),
        inputs: maker
            .op
            .inputs
            .iter()
            .chain(others().map(|k| &reader.op.inputs[k]))
            .cloned()
            .collect(),
        output: reader.op.output.clone(),
    };
    op.check().ok()?;
    let reads = maker.reads.iter().copied().chain(others().map(|k| reader.reads[k])).collect();
    Some(TensorStep { name: reader.name.clone(), op: Arc::new(op), reads, writes: reader.writes })
}

/// Returns whether all is computed and stored in 32 bits, and the formula is of one sum for each of
/// its results.
fn are_singles(contract: &Contract, map: &Map, [sums, results]: [&TensorOp; 2]) -> bool {
    let domains = contract.domain == Domain::F32 && map.domain == Domain::F32;
    let elements = [&sums.output, &results.output].iter().all(|spec| spec.element == Element::F32);
    domains && elements && sums.output.elements() == results.output.elements()
}

#[cfg(test)]
mod tests {
    use super::super::joined::joined;
    use super::*;
    use crate::memory::budget::Budget;
    use crate::memory::ledger::Ledger;
    use crate::tensors::builder::Builder;
    use crate::tensors::model::TensorModel;
    use crate::tensors::value::Value;
    use reef_op::tensor::{Array, Binary, Spec};

    /// `x - (x · w) + b`, and the product itself as an output if `also`.
    fn model(also: bool) -> TensorModel {
        let ledger = Ledger::new(&Budget::default());
        let mut b = Builder::new(&ledger);
        let x = b.input("x", Spec { element: Element::F32, dims: vec![2, 2] }).unwrap();
        let w = b.constant(vec![2, 2], Array::F32(vec![1.0, 2.0, 3.0, 4.0])).unwrap();
        let bias = b.constant(vec![2], Array::F32(vec![0.5, 0.25])).unwrap();
        let product: Value = b.matmul(&x, &w).unwrap();
        let rest = b.binary(Binary::Sub, &x, &product).unwrap();
        let y = b.binary(Binary::Add, &rest, &bias).unwrap();
        let also = also.then(|| ("p".to_owned(), product));
        b.finish("m", [("y".to_owned(), y)].into_iter().chain(also).collect()).unwrap()
    }

    #[test]
    fn a_formula_joins_the_sums_that_it_alone_reads() {
        let mut model = model(false);
        let steps = joined(&model.steps, &model.outputs, &|_| true);
        let names: Vec<_> = steps.iter().map(|step| step.op.name()).collect();
        assert_eq!(names, ["finished"]);
        let x = Array::F32(vec![1.0, -1.0, 2.0, 0.5]);
        let want = model.execute(std::slice::from_ref(&x)).unwrap();
        model.steps = steps;
        assert_eq!(model.execute(&[x]).unwrap(), want);
    }

    #[test]
    fn sum_that_others_read_or_a_device_refuses_stays() {
        let kept = model(true);
        assert_eq!(joined(&kept.steps, &kept.outputs, &|_| true), kept.steps);
        let kept = model(false);
        assert_eq!(joined(&kept.steps, &kept.outputs, &|_| false), kept.steps);
    }
}
