//! Both orders of an image's axes, and views of one as views of the other.

use reef_op::tensor::{Move, View};
use std::cmp::Reverse;

/// Images, rows, columns, channels: which axes of images, channels, rows, columns these are.
const LAST: [usize; 4] = [0, 2, 3, 1];
/// And back.
const SECOND: [usize; 4] = [0, 3, 1, 2];

/// Sizes of an image, channels last.
pub(super) fn last([n, c, height, width]: [usize; 4]) -> Vec<usize> {
    vec![n, height, width, c]
}

/// The sizes, if there are four.
pub(super) fn image(dims: &[usize]) -> Option<[usize; 4]> {
    dims.try_into().ok()
}

/// Returns whether `op` turns channels of an image of these sizes to the last axis.
pub(super) fn turns_to_last(op: &Move, dims: &[usize]) -> bool {
    turns(op, dims, LAST)
}

/// Returns whether it turns the last axis of a tensor of these sizes to where channels are.
pub(super) fn turns_from_last(op: &Move, dims: &[usize]) -> bool {
    turns(op, dims, SECOND)
}

fn turns(op: &Move, dims: &[usize], order: [usize; 4]) -> bool {
    let dense = View::dense(dims);
    let table = |(table, &axis): (&Vec<usize>, &usize)| {
        let (size, stride) = (dims[axis], dense.strides[axis]);
        table.len() == size && table.iter().enumerate().all(|(k, &at)| at == k * stride)
    };
    dims.len() == 4 && op.tables.len() == 4 && op.tables.iter().zip(&order).all(table)
}

/// Two views that are added, of an image of these sizes, as views of the same with channels last.
/// `None` if a row of elements goes over the end of an axis.
pub(super) fn relaid(views: [&View; 2], dims: [usize; 4]) -> Option<[View; 2]> {
    if dims.contains(&0) || views.iter().any(|view| view.is_empty()) {
        return None;
    }
    let [before, after] = [dims.to_vec(), last(dims)].map(|dims| View::dense(&dims).strides);
    let after = SECOND.map(|axis| after[axis]);
    let mut reach = [0; 4];
    let mut stride = |size: usize, mut stride: usize| {
        let mut new = 0;
        for axis in 0..if size == 1 { 0 } else { 4 } {
            let steps = stride / before[axis];
            stride -= steps * before[axis];
            reach[axis] += (size - 1) * steps;
            new += steps * after[axis];
        }
        new
    };
    let made = views.map(|view| View {
        dims: view.dims.clone(),
        strides: view.dims.iter().zip(&view.strides).map(|(&size, &at)| stride(size, at)).collect(),
    });
    reach.iter().zip(dims).all(|(reach, size)| *reach < size).then_some(made)
}

/// Views of as many elements as an image of these sizes has, in its order, in that of the image
/// with channels last. `None` if axes of the views are none of the image's.
pub(super) fn reordered(views: &[View; 2], dims: [usize; 4]) -> Option<[View; 2]> {
    let long: Vec<usize> = (0..views[0].dims.len()).filter(|&k| views[0].dims[k] != 1).collect();
    let mut left = &long[..];
    let mut groups = [(); 4].map(|()| Vec::new());
    for (group, size) in groups.iter_mut().zip(dims) {
        let mut have = 1;
        while have < size {
            let (&axis, others) = left.split_first()?;
            have *= views[0].dims[axis];
            group.push(axis);
            left = others;
        }
        if have != size {
            return None;
        }
    }
    let order = LAST.map(|axis| &groups[axis][..]).concat();
    left.is_empty().then(|| views.each_ref().map(|view| view.axes(&order)))
}

/// Puts the terms in another order: those that lie nearest to each other in the first view are
/// innermost, as devices bring it in pieces.
pub(super) fn by_steps(views: &[View; 2]) -> [View; 2] {
    let mut order: Vec<usize> = (0..views[0].dims.len()).collect();
    order.sort_by_key(|&axis| Reverse(views[0].strides[axis]));
    views.each_ref().map(|view| view.axes(&order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_see_the_same_elements_channels_last() {
        let dims = [2, 3, 4, 5];
        let dense = View::dense(&dims);
        let from = View::dense(&last(dims)).axes(&SECOND);
        // Windows of 2 x 3 that go down by 2.
        let kept = View { dims: vec![2, 3, 2, 3], strides: vec![60, 20, 10, 1] };
        let window = View { dims: vec![2, 3], strides: vec![5, 1] };
        let [new_kept, new_window] = relaid([&kept, &window], dims).unwrap();
        for (i, j) in (0..kept.len()).flat_map(|i| (0..6).map(move |j| (i, j))) {
            let element = kept.offset(i) + window.offset(j);
            assert_eq!(dense.offset(element), element);
            assert_eq!(new_kept.offset(i) + new_window.offset(j), from.offset(element));
        }
        let none = View { dims: vec![0], strides: vec![1] };
        assert_eq!(relaid([&none, &window], dims).or(relaid([&kept, &window], [2, 0, 4, 5])), None);
        let over = View { dims: vec![6], strides: vec![1] };
        assert_eq!(relaid([&over, &View::default()], dims), None, "six of a row of five");
    }

    #[test]
    fn channels_of_a_window_are_innermost() {
        let view = |strides: [usize; 3]| View { dims: vec![96, 2, 3], strides: strides.to_vec() };
        let [x, w] = by_steps(&[view([1, 5376, 96]), view([6, 3, 1])]);
        assert_eq!(
            (x.dims, x.strides, w.strides),
            (vec![2, 3, 96], vec![5376, 96, 1], vec![3, 1, 6])
        );
    }

    #[test]
    fn outputs_of_views_are_those_of_a_image_in_another_order() {
        // Channels by groups.
        let view = View { dims: vec![2, 1, 3, 2, 4, 5], strides: vec![1000, 7, 300, 100, 10, 1] };
        let dims = [2, 6, 4, 5];
        let [made, _] = reordered(&[view.clone(), view.clone()], dims).unwrap();
        let places = View::dense(&dims).axes(&LAST);
        assert!((0..made.len()).all(|i| made.offset(i) == view.offset(places.offset(i))));
        assert_eq!(reordered(&[view.clone(), view], [2, 4, 6, 5]), None);
    }
}
