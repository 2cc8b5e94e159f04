//! Products of rows with a matrix that never changes and was packed for it: the layers of networks.
//!
//! A row is a pixel of a convolution of one by one, and has what those have: panels that are read
//! as they lie, hints of what comes next, and blocks of several panels.

use crate::kernels::blocks::shape::GroupShape;
use crate::kernels::product::tile::COLUMNS;
use crate::kernels::tensor::formulas::finish::{formula, sums};
use crate::kernels::tensor::formulas::formula::Vectors;
use crate::memory::buffer::Buffer;
use reef_core::{Error, Result};
use reef_op::tensor::{Kind, TensorOp, View};
use reef_op::{Conv2d, Layout, PackedInput, Tensor, Window};

/// Fewest outputs for which a matrix is packed.
const MIN_OUTPUTS: usize = 32;

/// A product of rows with a packed matrix.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Layer {
    /// Index of the input that has the rows.
    pub(in crate::kernels::tensor) rows: usize,
    /// The matrix as it was before.
    pub(in crate::kernels::tensor) packed: PackedInput,
    /// The layer as a convolution.
    pub(in crate::kernels::tensor) conv: Conv2d,
    /// Formula behind the sums.
    pub(in crate::kernels::tensor) formula: Option<Vectors>,
}

impl Layer {
    /// `None` if `op`, which was checked, is nothing of the kind.
    pub(in crate::kernels::tensor) fn of(op: &TensorOp) -> Option<Self> {
        let contract = sums(op)?;
        let formula = formula(op);
        if formula.is_none() && !matches!(op.kind, Kind::Contract(_)) {
            return None;
        }
        let [kept_a, kept_b] = &contract.kept;
        let outputs = kept_a.dims.last().copied()?;
        let matrix = match (kept_a.step(), kept_b.step()) {
            (0, step) if step > 0 => 1,
            (step, 0) if step > 0 => 0,
            _ => return None,
        };
        let rows = 1 - matrix;
        let split = |view: &View| {
            let last = view.dims.len() - 1;
            let front: Vec<usize> = (0..last).collect();
            (view.axes(&front).merged(), view.step())
        };
        let (front, apart) = split(&contract.kept[matrix]);
        let (left, _) = split(&contract.kept[rows]);
        let [terms, others] = [rows, matrix].map(|k| contract.summed[k].merged());
        let still = front.strides.iter().all(|&stride| stride == 0);
        let (count, depth) = (left.len(), terms.len());
        let (&[left_pitch], &[1], &[stride]) = (&*left.strides, &*terms.strides, &*others.strides)
        else {
            return None;
        };
        let padded = outputs.next_multiple_of(COLUMNS);
        let pays = outputs >= MIN_OUTPUTS && padded - outputs <= outputs / 8;
        if !still || !pays || left_pitch < depth {
            return None;
        }
        let tensor =
            |channels, of| Tensor { of, ..Tensor::new(Layout::Native, [1, channels, count, 1]) };
        let (input, output) = (tensor(depth, left_pitch), tensor(outputs, outputs));
        // The last row may end before the pitch does.
        let inside = input.storage_elements() <= op.inputs[rows].elements();
        if !inside || input.check().is_err() || output.check().is_err() {
            return None;
        }
        let window = Window { size: [1, 1], stride: [1, 1], padding: [0, 0] };
        let conv = Conv2d::new(input, output, window);
        let packed = PackedInput {
            input: matrix,
            elements: op.inputs[matrix].elements(),
            outputs: [outputs, apart],
            terms: [depth, stride],
            bytes: GroupShape { outputs, depth }.packed() * size_of::<f32>(),
        };
        Some(Self { rows, packed, conv, formula })
    }
}

/// Factors of a matrix at most.
const MAX_FACTORS: usize = 1 << 40;

/// Lays a matrix out in panels, behind a bias of zeros.
pub(crate) fn pack(packed: &PackedInput, values: &[f32]) -> Result<Buffer> {
    let PackedInput { elements, outputs: [outputs, apart], terms: [depth, stride], .. } = *packed;
    let reach = |count: usize, step: usize| count.checked_sub(1)?.checked_mul(step);
    let last = reach(outputs, apart).zip(reach(depth, stride)).and_then(|(a, b)| a.checked_add(b));
    // So large that nothing below overflows: no matrix of that size has a buffer.
    let is_small = outputs.checked_mul(depth).is_some_and(|size| size < MAX_FACTORS);
    let shape = GroupShape { outputs, depth };
    let is_whole = values.len() == elements && last.is_some_and(|last| last < elements);
    if !is_whole || !is_small || packed.bytes != shape.packed() * size_of::<f32>() {
        return Err(Error::invalid(
            "values",
            format!("must be those of {packed:?}, got {}", values.len()),
        ));
    }
    let buffer = Buffer::zeroed(packed.bytes)?;
    // SAFETY: the buffer is new, so nothing else reads or writes it, and it is that long.
    let to =
        unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr().cast::<f32>(), shape.packed()) };
    let panels = to[shape.padded()..].chunks_exact_mut(depth * COLUMNS);
    for (first, panel) in (0..outputs).step_by(COLUMNS).zip(panels) {
        let columns = COLUMNS.min(outputs - first);
        for (term, to) in panel.chunks_exact_mut(COLUMNS).enumerate() {
            let from = term * stride + first * apart;
            (0..columns).for_each(|column| to[column] = values[from + column * apart]);
        }
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operand_without_a_matrix_is_not_packed() {
        let shape = GroupShape { outputs: 2, depth: 3 };
        let bytes = shape.packed() * size_of::<f32>();
        let right = PackedInput { input: 1, elements: 6, outputs: [2, 3], terms: [3, 1], bytes };
        assert!(pack(&right, &[1.0; 6]).is_ok());
        for wrong in [
            PackedInput { outputs: [1 << 61, 0], terms: [1, 0], ..right },
            PackedInput { outputs: [1 << 62, 0], ..right },
            PackedInput { outputs: [usize::MAX, usize::MAX], ..right },
            PackedInput { outputs: [0, 3], ..right },
            PackedInput { terms: [0, 1], ..right },
            PackedInput { outputs: [2, 4], ..right },
            PackedInput { elements: 7, ..right },
            PackedInput { bytes: bytes - 4, ..right },
        ] {
            assert!(matches!(pack(&wrong, &[1.0; 6]), Err(Error::Invalid(_))), "{wrong:?}");
        }
    }
}
