//! Arithmetic of shapes.

use reef_op::tensor::Spec;

/// Result with a fault in words that follow the name of a node.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// Most dimensions of a network's tensors.
pub(crate) const MAX_RANK: usize = 12;

/// The number of an axis, counted from the front.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let from_front = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    let fits = from_front.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
    fits.ok_or_else(|| format!("axis {axis} of {rank} dimensions"))
}

/// Numbers of axes, counted from the front, in order.
pub(crate) fn axes(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut all = axes.iter().map(|&axis| self::axis(axis, rank)).collect::<Result<Vec<_>>>()?;
    all.sort_unstable();
    if all.windows(2).any(|two| two[0] == two[1]) {
        Err(format!("axes {axes:?} of {rank} dimensions"))
    } else {
        Ok(all)
    }
}

/// The shape to which all of `shapes` can be broadcast.
pub(crate) fn broadcast<'a>(shapes: impl IntoIterator<Item = &'a [usize]>) -> Result<Vec<usize>> {
    let mut all: Vec<usize> = Vec::new();
    for dims in shapes {
        while all.len() < dims.len() {
            all.insert(0, 1);
        }
        let missing = all.len() - dims.len();
        for (to, &size) in all[missing..].iter_mut().zip(dims) {
            match (*to, size) {
                (1, size) => *to = size,
                (to, size) if size == 1 || to == size => {}
                (to, size) => {
                    return Err(format!("sizes {to} and {size} don't fit: {all:?} and {dims:?}"));
                }
            }
        }
    }
    Ok(all)
}

/// A size of a shape.
pub(crate) fn size(number: i64) -> Result<usize> {
    usize::try_from(number).map_err(|_| format!("a size of {number}"))
}

/// Number of elements, if a tensor can have it. Sizes of one without elements are bounded likewise.
pub(crate) fn elements(dims: &[usize]) -> Result<usize> {
    if dims.len() > MAX_RANK {
        let rank = dims.len();
        return Err(format!(
            "a tensor must have at most {MAX_RANK} dimensions, got {rank}, or run the file by another engine"
        ));
    }
    let most = dims.iter().try_fold(1usize, |product, &n| product.checked_mul(n.max(1)));
    let fits = most.filter(|&n| n <= reef_op::MAX_ELEMENTS);
    let fits = fits.ok_or_else(|| format!("a tensor of {dims:?} is out of range"))?;
    Ok(if dims.contains(&0) { 0 } else { fits })
}

/// Products of the sizes before an axis, of its own, and of those behind it.
pub(crate) fn sizes_around(spec: &Spec, axis: usize) -> [usize; 3] {
    let dims = &spec.dims;
    [dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product()]
}
