//! Sums of products with a formula of each: a layer's bias, residual and activation.

use super::contract::Contract;
use super::formula::Formula;
use super::job::{Job, Outputs};
use super::map::Map;
use crate::tensor::array::{Array, Values};
use crate::tensor::element::{Domain, Element};
use crate::tensor::spec::Spec;
use reef_core::{Error, Result};

/// `output[i] = formula(sum[i], inputs[2][i], inputs[3][i], …)`, where `sum` is the result of
/// `contract` on the first two inputs.
///
/// Everything is a float of 32 bits but the inputs, which convert, and the output, which may be
/// rounded to a half. Inputs from the third on are broadcast to the output.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Finished {
    /// Contraction that makes the sums.
    pub contract: Contract,
    /// Formula of each sum, which is its first input.
    pub formula: Formula,
}

impl Finished {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let stored = matches!(output.element, Element::F32 | Element::F16);
        let singles = self.contract.domain == Domain::F32 && stored;
        let Some((factors, others)) = inputs.split_at_checked(2).filter(|_| singles) else {
            return Err(Error::invalid(
                "finished sum",
                format!("must have two factors and floats, got {inputs:?} to {output}"),
            ));
        };
        self.contract.check(factors, output)?;
        self.map().check(&with_sums(others, output), output)
    }

    pub(crate) fn compute(&self, inputs: &[Spec], output: &Spec, job: Job<'_>) -> Outputs {
        let Job { inputs: values, range, output: made, stop } = job;
        let room = Array::with_capacity(Element::F32, range.len());
        let factors = &values[..2];
        let sums = Job { inputs: factors, range: range.clone(), output: room, stop };
        let Array::F32(sums) = self.contract.compute(sums)? else { return None };
        // Formulas count from the first output.
        let mut all = vec![0.0; output.elements()];
        all[range.clone()].copy_from_slice(&sums);
        let all = Array::F32(all);
        let values: Vec<Values<'_>> =
            [all.values()].into_iter().chain(values[2..].iter().copied()).collect();
        let job = Job { inputs: &values, range, output: made, stop };
        self.map().compute(&with_sums(&inputs[2..], output), output, job)
    }

    fn map(&self) -> Map {
        Map { formula: self.formula.clone(), domain: Domain::F32 }
    }
}

/// Inputs of the formula.
fn with_sums(others: &[Spec], output: &Spec) -> Vec<Spec> {
    let sums = Spec { element: Element::F32, dims: output.dims.clone() };
    [&sums].into_iter().chain(others).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::kinds::formula::{Binary, Term};
    use crate::tensor::op::{Kind, TensorOp};
    use crate::tensor::stored::{Half, Stored};
    use crate::tensor::view::View;

    fn single(dims: &[usize]) -> Spec {
        Spec { element: Element::F32, dims: dims.to_vec() }
    }

    /// Rows times columns, plus a bias for each column.
    fn op() -> TensorOp {
        let view = |strides: [usize; 2]| View { dims: vec![3, 2], strides: strides.to_vec() };
        let along = View { dims: vec![2], strides: vec![1] };
        let contract = Contract {
            domain: Domain::F32,
            kept: [view([2, 0]), view([0, 2])],
            summed: [along.clone(), along],
        };
        let terms = vec![Term::Input(0), Term::Input(1), Term::Binary(Binary::Sub, 0, 1)];
        let kind = Kind::Finished(Finished { contract, formula: Formula(terms) });
        TensorOp {
            kind,
            inputs: vec![single(&[3, 2]), single(&[2, 2]), single(&[2])],
            output: single(&[3, 2]),
        }
    }

    #[test]
    fn any_range_equals_the_two_operations() {
        let op = op();
        let (a, b) =
            (Array::F32(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Array::F32(vec![1.0, 0.0, 1.0, 1.0]));
        let bias = Array::F32(vec![10.0, 20.0]);
        let values = [a.values(), b.values(), bias.values()];
        let made = |range| op.compute(&values, range, &|| false).unwrap().unwrap();
        assert_eq!(made(0..6), Array::F32(vec![-9.0, -17.0, -7.0, -13.0, -5.0, -9.0]));
        assert_eq!(made(3..5), Array::F32(vec![-13.0, -5.0]));
        assert!(op.compute(&values, 0..6, &|| true).unwrap().is_none());
    }

    #[test]
    fn half_output_is_the_rounded_single() {
        let half = Spec { element: Element::F16, dims: vec![3, 2] };
        let op = TensorOp { output: half, ..op() };
        let (a, b) = (Array::F32(vec![0.1; 6]), Array::F32(vec![1.0; 4]));
        let bias = Array::F32(vec![0.0, 1.0]);
        let values = [a.values(), b.values(), bias.values()];
        let made = op.compute(&values, 0..2, &|| false).unwrap().unwrap();
        assert_eq!(made, Array::F16([0.2, -0.8].map(Half::from_f32).to_vec()));
    }

    #[test]
    fn unreadable_formula_inputs_are_refused() {
        let wide =
            TensorOp { inputs: vec![single(&[3, 2]), single(&[2, 2]), single(&[3])], ..op() };
        let few = TensorOp { inputs: vec![single(&[3, 2])], ..op() };
        let whole = TensorOp { output: Spec { element: Element::I32, dims: vec![3, 2] }, ..op() };
        for op in [wide, few, whole] {
            assert!(matches!(op.check(), Err(Error::Invalid(_))), "{op:?}");
        }
    }
}
