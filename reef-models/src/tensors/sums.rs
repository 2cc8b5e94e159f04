//! Sums, products of matrices and the like, as operations of a network.

use super::axes::{Result, broadcast};
use super::builder::Builder;
use super::value::{Value, wide};
use super::windows::product;
use reef_op::tensor::{
    Binary, Contract, Domain, Element, Fold, FoldKind, Gather, Kind, Scan, Spec, Target, TopK, View,
};

/// Numbers in which sums of this type are made.
fn sum_domain(element: Element, kind: FoldKind) -> Domain {
    match (element.domain(), kind) {
        (Domain::F32, FoldKind::Max | FoldKind::Min) => Domain::F32,
        (Domain::F32, FoldKind::ArgMax { .. } | FoldKind::ArgMin { .. }) => Domain::F32,
        (Domain::F32, _) => Domain::F64,
        (other, _) => other,
    }
}

/// Elements of one result from which a fold is two: all of one result are folded by one block.
const LONG_FOLD: usize = 8192;

/// Returns the axis that a long fold begins with, if that leaves its result: the largest and the
/// smallest of numbers are the same in any order, but for the sign of 0.
fn first_axis(value: &Value, axes: &[usize], kind: FoldKind) -> Option<usize> {
    let size = |axis: &usize| value.dims()[*axis];
    let all: usize = axes.iter().map(size).product();
    let longest = axes.iter().copied().max_by_key(size)?;
    let is_free = matches!(kind, FoldKind::Max | FoldKind::Min);
    (is_free && all >= LONG_FOLD && size(&longest) < all).then_some(longest)
}

impl Builder<'_> {
    /// Folds all elements along `axes`. These axes stay with a size of one.
    pub(crate) fn fold_axes(
        &mut self,
        value: &Value,
        axes: &[usize],
        kind: FoldKind,
    ) -> Result<Value> {
        if let Some(first) = first_axis(value, axes, kind) {
            let part = self.fold_axes(value, &[first], kind)?;
            return self.fold_axes(&part, axes, kind);
        }
        let view = View::dense(value.dims());
        let kept: Vec<usize> = (0..value.rank()).filter(|axis| !axes.contains(axis)).collect();
        let dims = (0..value.rank()).map(|k| if axes.contains(&k) { 1 } else { value.dims()[k] });
        let (kept, folded, dims) = (view.axes(&kept), view.axes(axes), dims.collect());
        self.fold_view(value, kept, folded, dims, kind)
    }

    /// As [`fold_axes`](Self::fold_axes), of what two views see.
    pub(crate) fn fold_view(
        &mut self,
        value: &Value,
        kept: View,
        folded: View,
        dims: Vec<usize>,
        kind: FoldKind,
    ) -> Result<Value> {
        let places = matches!(kind, FoldKind::ArgMax { .. } | FoldKind::ArgMin { .. });
        let element = if places { Element::I64 } else { value.element() };
        let domain = sum_domain(value.element(), kind);
        self.emit(Kind::Fold(Fold { kind, domain, kept, folded }), &[value], Spec { element, dims })
    }

    /// Means along axes, which stay with a size of one.
    pub(crate) fn mean(&mut self, value: &Value, axes: &[usize]) -> Result<Value> {
        let count: usize = axes.iter().map(|&axis| value.dims()[axis]).product();
        let sum = self.fold_axes(value, axes, FoldKind::Sum)?;
        self.with_number(Binary::Div, &sum, count as f64)
    }

    /// A sum of products of what two pairs of views see; sizes of the first ones are those of the
    /// result.
    pub(crate) fn contract(
        &mut self,
        [a, b]: [&Value; 2],
        kept: [View; 2],
        summed: [View; 2],
        dims: Vec<usize>,
        element: Element,
    ) -> Result<Value> {
        let domain = wide(element).domain();
        self.emit(
            Kind::Contract(Contract { domain, kept, summed }),
            &[a, b],
            Spec { element, dims },
        )
    }

    /// Products of matrices, batches broadcast, as numpy's `matmul`.
    pub(crate) fn matmul(&mut self, a: &Value, b: &Value) -> Result<Value> {
        let (lone_row, lone_column) = (a.rank() == 1, b.rank() == 1);
        let a = if lone_row { self.reshape(a, [&[1], a.dims()].concat())? } else { a.clone() };
        let b = if lone_column { self.reshape(b, [b.dims(), &[1]].concat())? } else { b.clone() };
        if a.rank() == 0 || b.rank() == 0 || a.dims()[a.rank() - 1] != b.dims()[b.rank() - 2] {
            return Err(format!("a product of {} and {}", a.spec, b.spec));
        }
        let made = self.matrices(&a, &b)?;
        let mut dims = made.dims().to_vec();
        if lone_column {
            dims.pop();
        }
        if lone_row {
            dims.remove(made.rank() - 2);
        }
        self.reshape(&made, dims)
    }

    /// Products of matrices of at least two dimensions that fit.
    fn matrices(&mut self, a: &Value, b: &Value) -> Result<Value> {
        let (ra, rb) = (a.rank(), b.rank());
        let batch = broadcast([&a.dims()[..ra - 2], &b.dims()[..rb - 2]])?;
        let (m, k, n) = (a.dims()[ra - 2], a.dims()[ra - 1], b.dims()[rb - 1]);
        let batch_of = |value: &Value, rank: usize| {
            let [rows, columns] = [value.dims()[rank - 2], value.dims()[rank - 1]];
            let mut view = View::broadcast(&value.dims()[..rank - 2], &batch).unwrap_or_default();
            view.strides.iter_mut().for_each(|stride| *stride *= rows * columns);
            view
        };
        let kept = [
            batch_of(a, ra).then(&View::new(&[m, n], &[k, 0])),
            batch_of(b, rb).then(&View::new(&[m, n], &[0, 1])),
        ];
        let summed = [1, n].map(|stride| View::new(&[k], &[stride]));
        let dims = [&*batch, &[m, n]].concat();
        self.contract([a, b], kept, summed, dims, a.element())
    }

    /// A product of two matrices, each transposed or not.
    pub(crate) fn gemm(&mut self, a: &Value, b: &Value, turned: [bool; 2]) -> Result<Value> {
        let (&[a0, a1], &[b0, b1]) = (a.dims(), b.dims()) else {
            return Err(format!("must be matrices, got {} and {}", a.spec, b.spec));
        };
        let element = a.element();
        let made = product([a0, a1], [b0, b1], turned, wide(element).domain());
        let (contract, dims) = made.ok_or_else(|| {
            format!("a product of {} and {}, transposed: {turned:?}", a.spec, b.spec)
        })?;
        self.emit(Kind::Contract(contract), &[a, b], Spec { element, dims: dims.into() })
    }

    /// Running sums along an axis.
    pub(crate) fn running(
        &mut self,
        value: &Value,
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Result<Value> {
        let (len, inner) = (value.dims()[axis], value.dims()[axis + 1..].iter().product());
        let domain = sum_domain(value.element(), FoldKind::Sum);
        let scan = Scan { len, inner, exclusive, reverse, domain };
        if value.spec.elements() == 0 {
            return Ok(value.clone());
        }
        self.emit(Kind::Scan(scan), &[value], value.spec.clone())
    }

    /// The best `k` of each row and their places.
    pub(crate) fn top(&mut self, value: &Value, k: usize, largest: bool) -> Result<[Value; 2]> {
        let len = value.dims().last().copied().unwrap_or(0);
        let mut dims = value.dims().to_vec();
        dims[value.rank() - 1] = k;
        if k > len {
            return Err(format!("{k} of {len}"));
        }
        let kind = Kind::TopK(TopK { len, k: k.max(1), largest, places: true });
        let spec = Spec { element: Element::I64, dims: dims.clone() };
        let places = self.emit(kind, &[value], spec)?;
        let axis = value.rank() - 1;
        let target = Target::Along { dims: value.dims().to_vec(), indices: dims.clone(), axis };
        let spec = Spec { element: value.element(), dims };
        // To look them up takes less than to find them a second time.
        let values = self.emit(Kind::Gather(Gather { target }), &[value, &places], spec)?;
        Ok([values, places])
    }
}
