//! Several products as one launch: those of attention's queries, keys and values leave most of a
//! large GPU idle one by one.

use super::contract::{afters, product_of, product_when_packed, table};
use super::params::{GroupParams, PRODUCTS};
use super::tiled::{ANY, Product, kind};
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::tensor::bound::BoundTensors;
use crate::operators::tensor::plan::{NOWHERE, Plan};
use reef_core::{Launch, Result};
use reef_op::tensor::TensorOp;

/// Number of `ops`, from the first on, that are best one launch.
pub(in crate::operators::tensor) fn count<V: Vendor>(gpu: &Gpu<V>, ops: &[&TensorOp]) -> usize {
    let product = |op: &&TensorOp| op.check().ok().and_then(|()| product_when_packed(gpu, op));
    let products = ops.iter().take(PRODUCTS).map_while(product).map(|(product, _)| product);
    let products: Vec<Product> = products.collect();
    let fits = |count: &usize| Product::common_tile(gpu, &products[..*count]).is_some();
    (2..=products.len()).rev().find(fits).unwrap_or(1)
}

/// The launch of all of them; `None` if they have none in common.
///
/// # Errors
///
/// `Invalid` if what one writes overlaps what another reads or writes.
pub(in crate::operators::tensor) fn build<V: Vendor>(
    all: &[BoundTensors<'_, V>],
) -> Result<Option<Launch<Gpu<V>>>> {
    let [first, others @ ..] = all else { return Ok(None) };
    let known = all.iter().map(|bound| product_of(bound.gpu(), &bound.op));
    let Some(known) = known.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let (products, steps): (Vec<Product>, Vec<_>) = known.into_iter().unzip();
    let Some(tile) = Product::common_tile(first.gpu(), &products) else { return Ok(None) };
    if others.is_empty() || all.len() > PRODUCTS {
        return Ok(None);
    }
    let mut plan = Plan::default();
    plan.words(&[0]); // so that no view is at 0
    let mut group = GroupParams { of: Default::default(), begins: [NOWHERE; PRODUCTS + 1] };
    let (mut blocks, mut kernels) = (0, Vec::new());
    let products: Vec<_> =
        products.into_iter().map(|product| product.in_whole_tiles(tile)).collect();
    for (k, (product, bound)) in products.iter().zip(all).enumerate() {
        bound.check_next_to(
            all.iter().enumerate().filter(|(other, _)| *other != k).map(|(_, b)| b),
        )?;
        let terms = |plan: &mut Plan| table(bound, product.summed(), plan);
        group.of[k] = product.params(bound, afters(bound, &steps[k]), terms, &mut plan)?;
        group.begins[k] = u32::try_from(blocks).map_err(|_| bound.refused("too many blocks"))?;
        let name = product.kernel("products", &group.of[k]);
        kernels.push(name.filter(|_| kind(&group.of[k]) != ANY));
        blocks += product.blocks();
    }
    // One that has none, or another, would be launched as the first.
    let alike = |name: &String| kernels.iter().all(|other| other.as_ref() == Some(name));
    let Some(name) = kernels[0].clone().filter(alike) else {
        return Ok(None);
    };
    let words = first.words(&plan)?;
    group.of = group.of.map(|product| product.with_plan(words.address()));
    let kept = others.iter().flat_map(BoundTensors::buffers).chain([words]);
    products[0].launch_of(first, &name, blocks, &group, kept).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::buffer::Buffer;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use crate::operators::tensor::build::build_group;
    use reef_core::{Device, Error};
    use reef_op::tensor::{
        Binary, Contract, Domain, Element, Finished, Formula, Kind, Spec, Term, View,
    };
    use reef_op::{Storage, TensorOperands};
    use std::sync::Arc;

    fn gpu() -> Gpu<Fake> {
        Gpu::new(Fake::with_tensor_cores(132), Options::default()).unwrap()
    }

    /// Rows of `terms` elements by columns of as many, and a bias.
    fn product(rows: usize, columns: usize, terms: usize) -> Arc<TensorOp> {
        let kept =
            [View::new(&[rows, columns], &[terms, 0]), View::new(&[rows, columns], &[0, terms])];
        let summed = [0; 2].map(|_| View::new(&[terms], &[1]));
        let contract = Contract { domain: Domain::F32, kept, summed };
        let sum = vec![Term::Input(0), Term::Input(1), Term::Binary(Binary::Add, 0, 1)];
        let kind = Kind::Finished(Finished { contract, formula: Formula(sum) });
        let single = |dims: &[usize]| Spec { element: Element::F32, dims: dims.to_vec() };
        let inputs = vec![single(&[rows, terms]), single(&[columns, terms]), single(&[columns])];
        Arc::new(TensorOp { kind, inputs, output: single(&[rows, columns]) })
    }

    fn counted(ops: &[Arc<TensorOp>]) -> usize {
        count(&gpu(), &ops.iter().map(|op| &**op).collect::<Vec<_>>())
    }

    /// Names and blocks of the launches of `ops`, which read the same rows. Weights begin at
    /// `weights`, outputs are `apart`.
    fn built(ops: &[Arc<TensorOp>], weights: usize, apart: usize) -> Result<Vec<(String, u32)>> {
        built_with(ops, |_| weights, apart)
    }

    /// Builds the group with weights of operation `k` at `weights(k)`.
    fn built_with(
        ops: &[Arc<TensorOp>],
        weights: impl Fn(usize) -> usize,
        apart: usize,
    ) -> Result<Vec<(String, u32)>> {
        let gpu = gpu();
        let [rows, others, output]: [Buffer<Fake>; 3] = [0; 3].map(|_| gpu.alloc(4 << 20).unwrap());
        let operands = |(k, op)| {
            let storage = |buffer, offset| Storage { buffer, offset };
            let inputs = vec![storage(&rows, 0), storage(&others, weights(k)), storage(&others, 0)];
            let output = storage(&output, k * apart);
            (op, TensorOperands { inputs, output, packed: false, scratch: None })
        };
        let group: Vec<_> = ops.iter().enumerate().map(operands).collect();
        let launches = build_group(&gpu, &group)?;
        let named = launches.iter().map(|l| (l.kernel().name().to_owned(), l.blocks()));
        Ok(named.collect())
    }

    #[test]
    fn products_of_the_same_rows_are_one_launch() {
        let ops = [product(128, 768, 768), product(128, 256, 768), product(128, 256, 768)];
        assert_eq!([counted(&ops), counted(&ops[..2]), counted(&ops[..1])], [3, 2, 1]);
        let blocks = (4 * (24 + 8 + 8)) as u32;
        let all = [("products_along_tf32_32x32".to_owned(), blocks)];
        assert_eq!(built(&ops, 0, 1 << 20).unwrap(), all);
        assert_eq!(counted(&[&ops[..], &ops[..1]].concat()), 3, "a kernel takes no more");
    }

    #[test]
    fn other_sizes_and_other_operations_are_not_in_the_group() {
        let one = product(128, 768, 768);
        assert_eq!(counted(&[one.clone(), one.clone(), product(128, 768, 512)]), 2);
        assert_eq!(counted(&[one.clone(), product(64, 768, 768)]), 1);
        let small = product(2, 2, 3);
        assert_eq!(counted(&[one, small.clone()]), 1);
        assert_eq!(counted(&[small.clone(), small]), 1, "no products on tensor cores");
    }

    #[test]
    fn products_outside_chunks_are_launched_one_by_one() {
        let ops = [0; 2].map(|_| product(128, 768, 768));
        let names = built(&ops, 4, 1 << 20).unwrap().into_iter().map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>(), ["product_any_tf32_32x32"; 2]);
    }

    #[test]
    fn product_outside_chunks_is_launched_by_itself() {
        let ops = [0; 2].map(|_| product(128, 768, 768));
        let names = built_with(&ops, |k| 4 * k, 1 << 20).unwrap();
        let names: Vec<_> = names.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["product_along_tf32_32x32", "product_any_tf32_32x32"]);
    }

    #[test]
    fn outputs_that_overlap_are_invalid() {
        let ops = [0; 2].map(|_| product(128, 768, 768));
        let refused = built(&ops, 0, 128 * 768 * 4 - 16).unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        assert_eq!(built(&ops, 0, 128 * 768 * 4).unwrap().len(), 1);
    }
}
