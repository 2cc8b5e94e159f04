//! From an operation to its launch.

use super::bound::BoundTensors;
use super::{contract, fold, formula, indexed, movement, rows};
use crate::gpu::Gpu;
use crate::vendor::calls::Vendor;
use reef_core::op::TensorOperands;
use reef_core::tensor::{Kind, TensorOp};
use reef_core::{Launch, Result};

/// The launch that computes `op`; none if it has no outputs.
///
/// # Errors
///
/// `Invalid` if the operation is not sound or its operands don't hold their tensors, `Unsupported` if the device has
/// no kernel for it.
pub(in crate::operators) fn build<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
    operands: &TensorOperands<'_, Gpu<V>>,
) -> Result<Vec<Launch<Gpu<V>>>> {
    let bound = BoundTensors::new(gpu, op, operands)?;
    if bound.count() == 0 {
        return Ok(Vec::new());
    }
    let launch = match &op.kind {
        Kind::Map(op) => formula::build(&bound, op),
        Kind::Move(op) => movement::build_move(&bound, op),
        Kind::Concat(op) => movement::build_concat(&bound, op),
        Kind::Fold(op) => fold::build(&bound, op),
        Kind::Contract(op) => contract::build(&bound, op),
        Kind::Gather(op) => indexed::build_gather(&bound, op),
        Kind::Scatter(op) => indexed::build_scatter(&bound, op),
        Kind::Scan(op) => rows::build_scan(&bound, op),
        Kind::TopK(op) => rows::build_top(&bound, op),
    };
    Ok(vec![launch?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::fake::Fake;
    use crate::vendor::options::Options;
    use reef_core::op::Storage;
    use reef_core::tensor::{Domain, Element, Formula, Map, Spec, Term, Unary};
    use reef_core::{Device, Error};

    /// Why a map of this function of so many elements is refused.
    fn refused(element: Element, function: Unary, elements: usize) -> Error {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let buffer = gpu.alloc(64).unwrap();
        let formula = Formula(vec![Term::Input(0), Term::Unary(function, 0)]);
        let spec = Spec { element, dims: vec![elements] };
        let kind = Kind::Map(Map { formula, domain: Domain::I64 });
        let op = TensorOp { kind, inputs: vec![spec.clone()], output: spec };
        let storage = || Storage { buffer: &buffer, offset: 0 };
        let operands = TensorOperands { inputs: vec![storage()], output: storage() };
        build(&gpu, &op, &operands).unwrap_err()
    }

    #[test]
    fn what_there_is_no_kernel_for_is_refused_by_name() {
        let says = |element, function, elements| match refused(element, function, elements) {
            Error::Unsupported { what, .. } => what,
            other => panic!("{other}"),
        };
        assert_eq!(says(Element::I64, Unary::Sin, 8), "map: Sin of integers");
        let large = says(Element::Bool, Unary::Not, 1 << 31);
        assert_eq!(large, "map: bool[2147483648] has 2^31 elements or more");
    }

    #[test]
    fn operands_that_hold_less_are_invalid() {
        assert!(matches!(refused(Element::I64, Unary::Abs, 9), Error::Invalid(_)));
        assert!(matches!(refused(Element::I64, Unary::Abs, 1 << 50), Error::Invalid(_)));
    }
}
