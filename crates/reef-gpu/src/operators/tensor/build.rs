//! Launches of tensor operations.

use super::attention::launch as attention;
use super::bound::{BoundTensors, KernelOp, refused};
use super::images::{depthwise, eight};
use super::normal::launch as normal;
pub(in crate::operators) use super::products::packed::pack as pack_input;
use super::products::packed::packed;
use super::products::{contract, group};
use super::{fold, formula, indexed, movement, row_map, rows};
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Launch, Result};
use reef_op::tensor::{Kind, TensorOp};
use reef_op::{PackedInput, Scratch, TensorOperands};
use std::sync::Arc;

/// The scratch memory that [`build`] wants for `op`.
pub(in crate::operators) fn scratch<V: Vendor>(gpu: &Gpu<V>, op: &TensorOp) -> Scratch {
    match &op.kind {
        _ if op.check().is_err() => Scratch::default(),
        Kind::Contract(_) | Kind::Finished(_) => contract::scratch(gpu, op),
        Kind::Eight(eight) => eight::scratch(gpu, eight),
        _ => Scratch::default(),
    }
}

/// Returns whether there is one launch for `op`, which was several operations.
pub(in crate::operators) fn takes<V: Vendor>(gpu: &Gpu<V>, op: &TensorOp) -> bool {
    match &op.kind {
        Kind::Finished(_) => op.check().is_ok() && contract::finishes(gpu, op),
        Kind::RowMap(rows) => op.check().is_ok() && row_map::fits(gpu, rows),
        Kind::Attention(heads) => op.check().is_ok() && attention::fits(gpu, op, heads),
        Kind::Depthwise(depthwise) => op.check().is_ok() && depthwise::fits(depthwise),
        Kind::Eight(eight) => op.check().is_ok() && eight::fits(gpu, eight),
        _ => false,
    }
}

/// The input of `op` that products take as halves if it never changes.
pub(in crate::operators) fn packed_input<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
) -> Option<PackedInput> {
    op.check().ok()?;
    packed(gpu, op).map(|(packed, _)| packed)
}

/// Returns whether the kernel for `op` rounds input `input` to halves before anything else.
pub(in crate::operators) fn rounds_to_halves<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
    input: usize,
) -> bool {
    op.check().is_ok()
        && match &op.kind {
            Kind::Contract(_) | Kind::Finished(_) => contract::rounds(gpu, op, input),
            Kind::Attention(heads) => attention::rounds(gpu, op, heads, input),
            _ => false,
        }
}

/// Returns whether there is a kernel made for `op`, some of whose inputs or whose output are
/// halves.
pub(in crate::operators) fn takes_halves<V: Vendor>(gpu: &Gpu<V>, op: &TensorOp) -> bool {
    op.check().is_ok()
        && match &op.kind {
            Kind::Contract(_) | Kind::Finished(_) => contract::takes(gpu, op),
            Kind::RowMap(rows) => row_map::fits(gpu, rows) && normal::takes(op, rows),
            Kind::Attention(heads) => attention::fits(gpu, op, heads),
            _ => false,
        }
}

/// The launches that compute `op`; none if it has no outputs.
///
/// # Errors
///
/// `Invalid` if the operation is not sound or its operands don't hold their tensors, `Unsupported`
/// if the device has no kernel for it.
pub(in crate::operators) fn build<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
    operands: &TensorOperands<'_, Gpu<V>>,
) -> Result<Vec<Launch<Gpu<V>>>> {
    match &op.kind {
        Kind::Eight(eight) => eight::build(gpu, op, eight, operands),
        _ => build_bound(&bind(gpu, op, operands)?),
    }
}

/// Number of `ops`, from the first on, that are best built together.
pub(in crate::operators) fn grouped<V: Vendor>(gpu: &Gpu<V>, ops: &[&TensorOp]) -> usize {
    group::count(gpu, ops)
}

/// The launches that compute several operations, none of which reads or overlaps what another
/// writes.
///
/// # Errors
///
/// Returns the errors of [`build`].
pub(in crate::operators) fn build_group<V: Vendor>(
    gpu: &Gpu<V>,
    ops: &[(&Arc<TensorOp>, TensorOperands<'_, Gpu<V>>)],
) -> Result<Vec<Launch<Gpu<V>>>> {
    if ops.iter().any(|(op, _)| matches!(op.kind, Kind::Eight(_))) {
        let each = ops.iter().map(|(op, operands)| build(gpu, op, operands));
        return Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect());
    }
    let bound = ops.iter().map(|(op, operands)| bind(gpu, op, operands));
    let bound = bound.collect::<Result<Vec<_>>>()?;
    if let Some(launch) = group::build(&bound)? {
        return Ok(vec![launch]);
    }
    let each = bound.iter().map(build_bound).collect::<Result<Vec<_>>>()?;
    Ok(each.into_iter().flatten().collect())
}

/// `op`, as it is on its packed input if that is packed, with its operands.
fn bind<'a, V: Vendor>(
    gpu: &'a Gpu<V>,
    op: &'a TensorOp,
    operands: &TensorOperands<'_, Gpu<V>>,
) -> Result<BoundTensors<'a, V>> {
    op.check()?;
    let seen = if operands.packed {
        match packed(gpu, op) {
            Some((_, seen)) => seen,
            None => return Err(refused::<V>(op, "none of its inputs is packed")),
        }
    } else {
        KernelOp::as_it_is(op)
    };
    BoundTensors::new(gpu, seen, operands)
}

fn build_bound<V: Vendor>(bound: &BoundTensors<'_, V>) -> Result<Vec<Launch<Gpu<V>>>> {
    if bound.count() == 0 {
        return Ok(Vec::new());
    }
    let launch = match &bound.op.kind {
        Kind::Map(op) => formula::build(bound, op),
        Kind::Move(op) => movement::build_move(bound, op),
        Kind::Concat(op) => movement::build_concat(bound, op),
        Kind::Fold(op) => fold::build(bound, op),
        Kind::Contract(op) => contract::build(bound, op),
        Kind::Finished(_) => contract::build_finished(bound),
        Kind::Gather(op) => indexed::build_gather(bound, op),
        Kind::Scatter(op) => indexed::build_scatter(bound, op),
        Kind::RowMap(op) => row_map::build(bound, op),
        Kind::Scan(op) => rows::build_scan(bound, op),
        Kind::TopK(op) => rows::build_top(bound, op),
        Kind::Attention(op) => attention::build(bound, op),
        Kind::Depthwise(op) => depthwise::build(bound, op),
        Kind::Suppress(op) => rows::build_suppress(bound, op),
        Kind::Eight(_) => Err(bound.refused("weights that are not packed")),
    };
    Ok(vec![launch?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use reef_core::{Device, Error};
    use reef_op::Storage;
    use reef_op::tensor::{Domain, Element, Fold, FoldKind, Formula, Map, Spec, Term, Unary, View};

    /// Why `op` is refused that reads what begins at the buffer's front and writes what begins at
    /// `output`.
    fn refusal(op: &TensorOp, output: usize) -> Error {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let buffer = gpu.alloc(128).unwrap();
        let storage = |offset| Storage { buffer: &buffer, offset };
        let operands = TensorOperands {
            inputs: vec![storage(0)],
            output: storage(output),
            packed: false,
            scratch: None,
        };
        build(&gpu, op, &operands).unwrap_err()
    }

    /// A map of this function of this number of elements.
    fn map(element: Element, function: Unary, elements: usize) -> TensorOp {
        let formula = Formula(vec![Term::Input(0), Term::Unary(function, 0)]);
        let spec = Spec { element, dims: vec![elements] };
        let kind = Kind::Map(Map { formula, domain: Domain::I64 });
        TensorOp { kind, inputs: vec![spec.clone()], output: spec }
    }

    fn refused(element: Element, function: Unary, elements: usize) -> Error {
        refusal(&map(element, function, elements), 64)
    }

    #[test]
    fn operation_without_a_kernel_is_refused_by_name() {
        let says = |element, function, elements| match refused(element, function, elements) {
            Error::Unsupported { what, .. } => what,
            other => panic!("{other}"),
        };
        assert_eq!(says(Element::I64, Unary::Sin, 8), "map: Sin of integers");
        let large = says(Element::Bool, Unary::Not, 1 << 31);
        assert_eq!(large, "map: bool[2147483648] has 2^31 elements or more");
    }

    #[test]
    fn sums_of_more_than_kernels_count_are_refused() {
        let all = View { dims: vec![1 << 32], strides: vec![0] };
        let kept = View { dims: vec![1], strides: vec![0] };
        let kind = FoldKind::Sum;
        let fold = Fold { kind, domain: Domain::F32, kept, folded: all };
        let single = Spec { element: Element::F32, dims: vec![1] };
        let op = TensorOp { kind: Kind::Fold(fold), inputs: vec![single.clone()], output: single };
        let said = refusal(&op, 64).to_string();
        assert!(said.contains("fold: 4294967296 elements for one output"), "{said}");
    }

    #[test]
    fn an_output_over_what_is_read_is_invalid() {
        let said = refusal(&map(Element::I64, Unary::Abs, 8), 56).to_string();
        assert_eq!(said, "output: cannot overlap what is read");
    }

    #[test]
    fn operands_that_hold_less_are_invalid() {
        assert!(matches!(refused(Element::I64, Unary::Abs, 9), Error::Invalid(_)));
        assert!(matches!(refused(Element::I64, Unary::Abs, 1 << 50), Error::Invalid(_)));
    }
}
