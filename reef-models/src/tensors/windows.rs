//! Windows over the axes behind batch and channels, convolutions and products of matrices, as
//! views: the builder and the recogniser of images agree on them here.

use reef_op::tensor::{Contract, Domain, View};

/// Windows of a tensor as axes of their own, behind all others. Where windows lie is `strides`
/// apart, where their elements lie `dilations`.
pub(crate) fn windows(
    dims: &[usize],
    counts: &[usize],
    sizes: &[usize],
    strides: &[usize],
    dilations: &[usize],
) -> [View; 2] {
    let dense = View::dense(dims);
    let space = dims.len() - counts.len();
    let scaled = |factors: &[usize]| -> Vec<usize> {
        dense.strides[space..]
            .iter()
            .zip(factors)
            .map(|(stride, factor)| stride.saturating_mul(*factor))
            .collect()
    };
    let kept = View {
        dims: [&dims[..space], counts].concat(),
        strides: [&dense.strides[..space], &scaled(strides)].concat(),
    };
    [kept, View { dims: sizes.to_vec(), strides: scaled(dilations) }]
}

/// Sums of products over what windows as large as the filters see of a padded input: `x` and `w`
/// are the sizes of both, of which `groups` divides channels and outputs.
pub(crate) fn convolution(
    x: &[usize],
    w: &[usize],
    groups: usize,
    counts: &[usize],
    strides: &[usize],
    dilations: &[usize],
    domain: Domain,
) -> Contract {
    let (outputs, each) = (w[0], w[1]);
    let [kept, taps] = windows(x, counts, &w[2..], strides, dilations);
    let (plane, filter) = (kept.strides[1], View::dense(w));
    let view = |dims: Vec<usize>, strides: Vec<usize>| View { dims, strides };
    let space = view(kept.dims[2..].to_vec(), kept.strides[2..].to_vec());
    let front = vec![x[0], groups, outputs / groups];
    let of_x = view(front.clone(), vec![kept.strides[0], plane * each, 0]).then(&space);
    let of_w = view(front, vec![0, filter.strides[0] * (outputs / groups), filter.strides[0]])
        .then(&view(space.dims, vec![0; counts.len()]));
    let summed =
        [view(vec![each], vec![plane]).then(&taps), filter.axes(&(1..w.len()).collect::<Vec<_>>())];
    Contract { domain, kept: [of_x, of_w], summed }
}

/// Returns whether a sum of products is the [`convolution`] over rows and columns of these sizes.
/// It allocates nothing: a file may have a hundred thousand of them.
#[cfg(feature = "onnx")]
pub(crate) fn is_convolution(
    contract: &Contract,
    x: &[usize],
    w: &[usize],
    groups: usize,
    counts: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
) -> bool {
    let (&[batch, channels, height, width], &[outputs, each, rows, columns]) = (x, w) else {
        return false;
    };
    let (plane, filter, of_group) = (height * width, each * rows * columns, outputs / groups);
    let front = [batch, groups, of_group, counts[0], counts[1]];
    let sums = [each, rows, columns];
    let is = |view: &View, dims: &[usize], strides: &[usize]| {
        view.dims == dims && view.strides == strides
    };
    let of_x = [channels * plane, plane * each, 0, strides[0] * width, strides[1]];
    let of_w = [0, filter * of_group, filter, 0, 0];
    contract.domain == Domain::F32
        && is(&contract.kept[0], &front, &of_x)
        && is(&contract.kept[1], &front, &of_w)
        && is(&contract.summed[0], &sums, &[plane, dilations[0] * width, dilations[1]])
        && is(&contract.summed[1], &sums, &[rows * columns, columns, 1])
}

/// A product of two matrices of these sizes, each transposed or not, and its rows and columns;
/// `None` if they don't fit.
pub(crate) fn product(
    a: [usize; 2],
    b: [usize; 2],
    turned: [bool; 2],
    domain: Domain,
) -> Option<(Contract, [usize; 2])> {
    let ([a0, a1], [b0, b1]) = (a, b);
    let [[m, k], [am, ak]] = if turned[0] { [[a1, a0], [1, a1]] } else { [[a0, a1], [a1, 1]] };
    let [[other, n], [bk, bn]] = if turned[1] { [[b1, b0], [1, b1]] } else { [[b0, b1], [b1, 1]] };
    if k != other {
        return None;
    }
    let kept = |strides: [usize; 2]| View { dims: vec![m, n], strides: strides.into() };
    let summed = |stride| View { dims: vec![k], strides: vec![stride] };
    let (kept, summed) = ([kept([am, 0]), kept([0, bn])], [summed(ak), summed(bk)]);
    Some((Contract { domain, kept, summed }, [m, n]))
}

#[cfg(all(test, feature = "onnx"))]
mod tests {
    use super::*;

    #[test]
    fn convolution_is_recognised_by_its_sizes_alone() {
        let (x, w) = ([2, 4, 9, 7], [6, 2, 3, 2]);
        let [counts, strides, dilations] = [[3, 5], [2, 1], [1, 2]];
        let made = convolution(&x, &w, 2, &counts, &strides, &dilations, Domain::F32);
        let is = |x: [usize; 4], groups, counts, strides, dilations| {
            is_convolution(&made, &x, &w, groups, counts, strides, dilations)
        };
        assert!(is(x, 2, counts, strides, dilations));
        assert!(!is(x, 1, counts, strides, dilations));
        assert!(!is(x, 2, [3, 4], strides, dilations));
        assert!(!is(x, 2, counts, [1, 1], dilations));
        assert!(!is(x, 2, counts, strides, [1, 1]));
        assert!(!is([2, 4, 7, 9], 2, counts, strides, dilations));
    }
}
