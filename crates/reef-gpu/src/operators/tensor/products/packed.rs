//! Columns that never change, as tensor cores take them: rounded, term after term.

use super::matrices::{Axes, Matrices};
use super::tiled::{MIN_SIDE, Product, contract_of};
use crate::driver::buffer::Buffer;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::element::Element as Native;
use crate::operators::tensor::bound::KernelOp;
use reef_core::{Error, Result};
use reef_op::PackedInput;
use reef_op::tensor::{Element, Finished, Kind, Spec, TensorOp, View};

/// The columns of `op`, which was checked, in their packed form: for each column its terms, side by
/// side. And the operation on those. `None` if columns are not a matrix of singles, or tensor cores
/// don't take them so.
pub(in crate::operators::tensor) fn packed<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
) -> Option<(PackedInput, KernelOp<'static>)> {
    let contract = contract_of(op)?;
    let matrices = Matrices::of(&contract.kept, MIN_SIDE)?;
    let input = 1 - matrices.row_input;
    let [(terms, steps)] = Axes::of(&contract.summed).0[..] else { return None };
    let columns = matrices.columns.merged();
    let &[count] = &columns.dims[..] else { return None };
    let one = matrices.batches.view(input).strides.iter().all(|&stride| stride == 0);
    let (apart, step) = (columns.step(), steps[input]);
    if op.inputs[input].element != Element::F32 || !one || apart == 0 || step == 0 {
        return None;
    }
    let packed = PackedInput {
        input,
        elements: op.inputs[input].elements(),
        outputs: [count, apart],
        terms: [terms, step],
        bytes: count * terms * Native::of(gpu).bytes(),
    };
    let seen = KernelOp::on_packed(on_packed(op, &packed, stored(Native::of(gpu))));
    Product::of(gpu, &seen)?;
    Some((packed, seen))
}

/// Packs `values` as `packed` says.
///
/// # Errors
///
/// `Invalid` if there are not as many values as it says, or too few; `OutOfMemory`.
pub(in crate::operators) fn pack<V: Vendor>(
    gpu: &Gpu<V>,
    packed: &PackedInput,
    values: &[f32],
) -> Result<Buffer<V>> {
    let PackedInput { elements, outputs: [count, apart], terms: [terms, step], .. } = *packed;
    let end = |count: usize, apart: usize| count.checked_sub(1)?.checked_mul(apart);
    let last = end(count, apart).and_then(|o| o.checked_add(end(terms, step)?));
    if values.len() != elements || last.is_none_or(|last| last >= elements) {
        return Err(Error::invalid(
            "values",
            format!("must be those of {packed:?}, got {}", values.len()),
        ));
    }
    let element = Native::of(gpu);
    let mut made = vec![0; count * terms * element.bytes()];
    for (at, to) in made.chunks_exact_mut(element.bytes()).enumerate() {
        element.write(to, values[at / terms * apart + at % terms * step]);
    }
    let buffer = Buffer::device(gpu.context(), made.len())?;
    buffer.write(0, &made)?;
    Ok(buffer)
}

/// As what tensors know it.
fn stored(element: Native) -> Element {
    if element == Native::F16 { Element::F16 } else { Element::F32 }
}

/// `op` on packed columns.
fn on_packed(op: &TensorOp, packed: &PackedInput, element: Element) -> TensorOp {
    let PackedInput { input, outputs: [count, apart], terms: [terms, step], .. } = *packed;
    let mut op = op.clone();
    op.inputs[input] = Spec { element, dims: vec![count, terms] };
    let (Kind::Contract(sums) | Kind::Finished(Finished { contract: sums, .. })) = &mut op.kind
    else {
        return op;
    };
    // Axes of one element have any stride.
    let scaled = |view: &mut View, from: usize, to: usize| {
        for (stride, &size) in view.strides.iter_mut().zip(&view.dims) {
            *stride = if size == 1 { 0 } else { *stride / from * to };
        }
    };
    scaled(&mut sums.kept[input], apart, terms);
    scaled(&mut sums.summed[input], step, 1);
    op
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::{Options, Precision};
    use crate::operators::tensor::build;
    use reef_core::Device;
    use reef_op::tensor::{Contract, Domain, Half, Stored as _};
    use reef_op::{Storage, TensorOperands};

    fn gpu(precision: Precision) -> Gpu<Fake> {
        let options = Options { precision: Some(precision), ..Options::default() };
        Gpu::new(Fake::with_tensor_cores(132), options).unwrap()
    }

    fn halves() -> Gpu<Fake> {
        gpu(Precision::Fp16)
    }

    /// 128 rows of `terms` that are stored like this, by 64 columns of which those of a term lie
    /// side by side.
    fn product(terms: usize, rows: Element) -> TensorOp {
        product_of_rows(128, terms, rows)
    }

    fn product_of_rows(count: usize, terms: usize, rows: Element) -> TensorOp {
        let contract = Contract {
            domain: Domain::F32,
            kept: [View::new(&[count, 64], &[terms, 0]), View::new(&[count, 64], &[0, 1])],
            summed: [View::new(&[terms], &[1]), View::new(&[terms], &[64])],
        };
        let spec = |element, dims: &[usize]| Spec { element, dims: dims.to_vec() };
        let inputs = vec![spec(rows, &[count, terms]), spec(Element::F32, &[terms, 64])];
        TensorOp {
            kind: Kind::Contract(contract),
            inputs,
            output: spec(Element::F32, &[count, 64]),
        }
    }

    fn packed_of(op: &TensorOp) -> Option<PackedInput> {
        build::packed_input(&halves(), op)
    }

    /// The kernel of `op`, whose columns are packed or not.
    fn kernel(op: &TensorOp, is_packed: bool) -> Result<String> {
        kernel_on(&halves(), op, is_packed)
    }

    fn kernel_on(gpu: &Gpu<Fake>, op: &TensorOp, is_packed: bool) -> Result<String> {
        let buffers: [Buffer<Fake>; 4] = [0; 4].map(|_| gpu.alloc(4 << 20).unwrap());
        let storage = |buffer| Storage { buffer, offset: 0 };
        let operands = TensorOperands {
            inputs: buffers[..2].iter().map(storage).collect(),
            output: storage(&buffers[2]),
            packed: is_packed,
            scratch: Some(storage(&buffers[3])),
        };
        let op = std::sync::Arc::new(op.clone());
        let launches = build::build(gpu, &op, &operands)?;
        Ok(launches[0].kernel().name().to_owned())
    }

    #[test]
    fn columns_are_packed_term_after_term() {
        let packed = packed_of(&product(72, Element::F32)).unwrap();
        let want = PackedInput {
            input: 1,
            elements: 72 * 64,
            outputs: [64, 1],
            terms: [72, 64],
            bytes: 72 * 64 * 2,
        };
        assert_eq!(packed, want);
        let values: Vec<f32> = (0..72 * 64).map(|n| n as f32 / 64.0).collect();
        let buffer = pack(&halves(), &packed, &values).unwrap();
        let mut made = vec![0; packed.bytes];
        buffer.read(0, &mut made).unwrap();
        let at = |column: usize, term: usize| {
            let first = 2 * (column * 72 + term);
            Half(u16::from_le_bytes([made[first], made[first + 1]])).to_f32()
        };
        assert_eq!((at(0, 5), at(8, 71)), (5.0, 71.125));
        let short = pack(&halves(), &packed, &values[1..]).unwrap_err();
        assert!(matches!(short, Error::Invalid(_)), "{short}");
    }

    #[test]
    fn rows_of_singles_and_of_halves_have_kernels_of_their_own() {
        let [single, half] = [Element::F32, Element::F16].map(|rows| product(64, rows));
        assert_eq!(kernel(&single, false).unwrap(), "product_across_f16_32x32");
        assert_eq!(kernel(&single, true).unwrap(), "product_narrow_f16_32x32");
        assert_eq!(kernel(&half, true).unwrap(), "product_along_pairs_32x32");
        let takes = |op| build::takes_halves(&halves(), op);
        assert!(takes(&half) && build::rounds_to_halves(&halves(), &single, 0));
        assert!(!build::rounds_to_halves(&halves(), &single, 1), "it is packed");
    }

    /// A product of 197 rows of halves by 64 columns, on a device opened like this.
    fn kernel_of(fake: Fake, warpgroups: bool, terms: usize) -> String {
        let options =
            Options { precision: Some(Precision::Fp16), warpgroups, ..Options::default() };
        let gpu = Gpu::new(fake, options).unwrap();
        kernel_on(&gpu, &product_of_rows(197, terms, Element::F16), true).unwrap()
    }

    #[test]
    fn products_of_halves_are_on_warpgroups_where_they_run() {
        let on = kernel_of(Fake::with_warpgroups(true), true, 768);
        assert!(on.starts_with("product_groups_f16_"), "{on}");
        let others = [
            (Fake::with_tensor_cores(132), true),
            (Fake::with_warpgroups(false), true),
            (Fake::with_warpgroups(true), false),
        ];
        for (fake, option) in others {
            let name = kernel_of(fake, option, 768);
            assert!(name.starts_with("product_along_pairs_"), "{name}");
        }
    }

    /// Blocks on warpgroups look at their guard once.
    #[test]
    fn long_sums_stay_with_tiles_that_poll_inside() {
        let name = |terms| kernel_of(Fake::with_warpgroups(true), true, terms);
        assert!(name(8192).starts_with("product_groups_"));
        assert!(name(8200).starts_with("product_along_pairs_"));
    }

    #[test]
    fn warpgroups_take_neither_singles_nor_few_rows() {
        let on = |precision| {
            let options = Options { precision: Some(precision), ..Options::default() };
            Gpu::new(Fake::with_warpgroups(true), options).unwrap()
        };
        let named = |precision, op: &TensorOp| kernel_on(&on(precision), op, true).unwrap();
        let singles = product_of_rows(197, 768, Element::F32);
        assert!(named(Precision::Fp16, &singles).starts_with("product_narrow_f16_"));
        assert!(named(Precision::Tf32, &singles).starts_with("product_rounded_tf32_"));
        let few = product_of_rows(128, 768, Element::F16);
        assert!(named(Precision::Fp16, &few).starts_with("product_along_pairs_"));
    }

    #[test]
    fn tensor_cores_that_take_singles_have_columns_rounded_already() {
        let gpu = gpu(Precision::Tf32);
        let op = product(12, Element::F32);
        let packed = build::packed_input(&gpu, &op).unwrap();
        assert_eq!(packed.bytes, 64 * 12 * 4);
        let values: Vec<f32> = (0..12 * 64).map(|n| n as f32 + 1.0 / 4096.0).collect();
        let buffer = pack(&gpu, &packed, &values).unwrap();
        let mut made = [0; 4];
        buffer.read((3 * 12 + 1) * 4, &mut made).unwrap();
        assert_eq!(f32::from_le_bytes(made), 67.0);
        assert_eq!(kernel_on(&gpu, &op, true).unwrap(), "product_rounded_tf32_32x32");
        assert_eq!(kernel_on(&gpu, &op, false).unwrap(), "product_across_tf32_32x32");
    }

    #[test]
    fn columns_outside_chunks_or_not_rounded_are_not_packed() {
        assert_eq!(packed_of(&product(68, Element::F32)), None, "68 halves are not whole chunks");
        assert_eq!(packed_of(&product(64, Element::I32)), None);
        let op = product(64, Element::F32);
        assert_eq!(build::packed_input(&gpu(Precision::Fp32), &op), None);
        for precision in [Precision::Tf32, Precision::Fp32] {
            assert!(!build::rounds_to_halves(&gpu(precision), &op, 0));
        }
        let odd = product(68, Element::F32);
        assert!(
            kernel(&odd, true).unwrap_err().to_string().contains("none of its inputs is packed")
        );
    }
}
