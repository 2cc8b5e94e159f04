//! Products of matrices among contractions.

use reef_op::tensor::View;

/// Two views of the same sizes, their axes merged where they can be in both. From the outermost on:
/// a size, and the stride of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Axes(pub(super) Vec<(usize, [usize; 2])>);

impl Axes {
    pub(super) fn of([a, b]: &[View; 2]) -> Self {
        let mut axes: Vec<(usize, [usize; 2])> = Vec::new();
        let strides = a.strides.iter().zip(&b.strides);
        for (&size, (&a, &b)) in a.dims.iter().zip(strides).filter(|(size, _)| **size != 1) {
            match axes.last_mut() {
                Some((last, [last_a, last_b])) if (*last_a, *last_b) == (a * size, b * size) => {
                    (*last, *last_a, *last_b) = (*last * size, a, b);
                }
                _ => axes.push((size, [a, b])),
            }
        }
        Self(axes)
    }

    /// As one of the two views has them.
    pub(super) fn view(&self, input: usize) -> View {
        let (dims, strides) = self.0.iter().map(|(size, strides)| (*size, strides[input])).unzip();
        View { dims, strides }
    }

    /// Elements of each view.
    fn len(&self) -> usize {
        self.0.iter().map(|(size, _)| size).product()
    }

    /// The axes with elements that adjoin in both views taken by pairs; `None` if they don't
    /// adjoin.
    pub(super) fn pairs(&self) -> Option<Self> {
        let [outer @ .., (size, [1, 1])] = &self.0[..] else { return None };
        let halved = |&(size, [a, b]): &(usize, [usize; 2])| Some((size, [half(a)?, half(b)?]));
        let mut axes = outer.iter().map(halved).collect::<Option<Vec<_>>>()?;
        axes.push((half(*size)?, [1, 1]));
        Some(Self(axes))
    }

    /// Takes off the innermost axes along which this input doesn't move.
    fn still(&mut self, input: usize) -> Self {
        let moves = |(_, strides): &(usize, [usize; 2])| strides[input] != 0;
        let begin = self.0.iter().rposition(moves).map_or(0, |last| last + 1);
        Self(self.0.split_off(begin))
    }
}

/// Number of pairs of elements; `None` if one is left over.
fn half(elements: usize) -> Option<usize> {
    elements.is_multiple_of(2).then_some(elements / 2)
}

/// `batches` products of matrices. Columns adjoin in the output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matrices {
    /// Number of the input that has the rows.
    pub(super) row_input: usize,
    pub(super) batches: Axes,
    pub(super) rows: View,
    pub(super) columns: View,
    /// Beginnings of batches, and of rows of a batch, in the output.
    pub(super) outputs: [View; 2],
}

impl Matrices {
    /// `None` if it is nothing that tiles pay for: fewer than `least` rows or columns. In order, if
    /// it can be.
    pub(super) fn of(kept: &[View; 2], least: usize) -> Option<Self> {
        if kept[0].is_empty() {
            return None;
        }
        [(false, 0), (false, 1), (true, 0), (true, 1)]
            .map(|(gathers, row_input)| Self::with_rows_of(row_input, kept, gathers))
            .into_iter()
            .find(|matrices| matrices.rows.len() >= least && matrices.columns.len() >= least)
    }

    /// The largest products in order of which one side has at most `most` rows or columns; `None`
    /// if there are none.
    pub(super) fn few(kept: &[View; 2], most: usize) -> Option<Self> {
        if kept[0].is_empty() {
            return None;
        }
        [1, 0]
            .map(|row_input| Self::with_rows_of(row_input, kept, false))
            .into_iter()
            .filter(|all| all.rows.len().min(all.columns.len()) <= most && all.is_in_order())
            .max_by_key(|all| all.rows.len() * all.columns.len())
    }

    /// The rows, or the columns: those that input `input` has.
    pub(super) fn lines_of(&self, input: usize) -> &View {
        if input == self.row_input { &self.rows } else { &self.columns }
    }

    /// Returns whether outputs are batches of rows of columns.
    pub(super) fn is_in_order(&self) -> bool {
        let [batches, rows] = self.outputs.each_ref().map(View::merged);
        let (row, batch) = (self.columns.len(), self.rows.len() * self.columns.len());
        [(&rows, row), (&batches, batch)].iter().all(|(view, step)| match view.strides[..] {
            [] => true,
            [stride] => stride == *step || view.len() == 1,
            _ => false,
        })
    }

    /// The matrices with rows, or columns, counted in pairs of elements; `None` if they don't begin
    /// at pairs.
    pub(super) fn by_pairs(self, [rows, columns]: [bool; 2]) -> Option<Self> {
        let step = |stride: usize, by_two: bool| if by_two { half(stride) } else { Some(stride) };
        let view = |View { dims, strides }: View, by_two: bool| {
            let strides = strides.into_iter().map(|stride| step(stride, by_two));
            Some(View { dims, strides: strides.collect::<Option<Vec<_>>>()? })
        };
        let of = if self.row_input == 0 { [rows, columns] } else { [columns, rows] };
        let batch =
            |(size, [a, b]): (usize, [usize; 2])| Some((size, [step(a, of[0])?, step(b, of[1])?]));
        let batches = self.batches.0.into_iter().map(batch).collect::<Option<Vec<_>>>()?;
        Some(Self {
            batches: Axes(batches),
            rows: view(self.rows, rows)?,
            columns: view(self.columns, columns)?,
            ..self
        })
    }

    /// Number of products.
    pub(super) fn batch(&self) -> usize {
        self.batches.len()
    }

    /// Number of tiles of `size` rows and columns.
    pub(super) fn tiles(&self, size: usize) -> usize {
        self.batch() * self.rows.len().div_ceil(size) * self.columns.len().div_ceil(size)
    }

    /// Rows are the innermost axes before the columns along which the other input doesn't move, or
    /// all such (`gathers`).
    fn with_rows_of(row_input: usize, kept: &[View; 2], gathers: bool) -> Self {
        let mut others = Axes::of(kept);
        let columns = others.still(row_input).view(1 - row_input);
        let mut step = columns.len() * others.len();
        let inner = others.clone().still(1 - row_input).0.len();
        let first_row = if gathers { 0 } else { others.0.len() - inner };
        let (mut batches, mut outputs) = (Axes(Vec::new()), [View::default(), View::default()]);
        let mut rows = View::default();
        for (k, (size, strides)) in others.0.into_iter().enumerate() {
            step /= size;
            let is_row = k >= first_row && strides[1 - row_input] == 0;
            if is_row {
                rows.dims.push(size);
                rows.strides.push(strides[row_input]);
            } else {
                batches.0.push((size, strides));
            }
            let output = &mut outputs[usize::from(is_row)];
            output.dims.push(size);
            output.strides.push(step);
        }
        Self { row_input, batches, rows, columns, outputs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(dims: &[usize], strides: &[usize]) -> View {
        View { dims: dims.to_vec(), strides: strides.to_vec() }
    }

    #[test]
    fn a_batch_of_products_is_one() {
        let kept = [view(&[2, 3, 20, 30], &[180, 60, 3, 0]), view(&[2, 3, 20, 30], &[0, 90, 0, 1])];
        let matrices = Matrices::of(&kept, 16).unwrap();
        assert!(matrices.is_in_order());
        assert_eq!((matrices.row_input, matrices.batches.0.len()), (0, 2));
        assert_eq!((matrices.rows, matrices.columns), (view(&[20], &[3]), view(&[30], &[1])));
    }

    /// The output of attention: heads lie between tokens and what each has of one.
    #[test]
    fn a_batch_may_lie_inside_of_the_rows() {
        let kept = [view(&[128, 12, 64], &[50, 6400, 0]), view(&[128, 12, 64], &[0, 64, 1])];
        let matrices = Matrices::of(&kept, 16).unwrap();
        assert_eq!((matrices.row_input, matrices.batch()), (0, 12));
        assert_eq!((&matrices.rows, &matrices.columns), (&view(&[128], &[50]), &view(&[64], &[1])));
        assert_eq!(matrices.outputs, [view(&[12], &[64]), view(&[128], &[12 * 64])]);
        assert!(!matrices.is_in_order());
    }

    #[test]
    fn pairs_begin_at_every_second_element() {
        let of = |rows, columns, batch| {
            let kept =
                [view(&[2, 20, 30], &[batch, rows, 0]), view(&[2, 20, 30], &[6000, 0, columns])];
            Matrices::of(&kept, 16).unwrap()
        };
        let (even, seen) = (of(64, 8, 1280), |rows: &Matrices| rows.batches.0[0].1);
        let columns = of(64, 8, 1280).by_pairs([false, true]).unwrap();
        assert_eq!((&columns.rows, columns.columns.strides[0]), (&even.rows, 4));
        assert_eq!((seen(&even), seen(&columns)), ([1280, 6000], [1280, 3000]));
        let both = even.by_pairs([true, true]).unwrap();
        assert_eq!((both.rows.strides[0], both.columns.strides[0]), (32, 4));
        assert_eq!(seen(&both), [640, 3000]);
        for (rows, columns, batch) in [(63, 8, 1280), (64, 7, 1280), (64, 8, 1281)] {
            assert_eq!(of(rows, columns, batch).by_pairs([true, true]), None);
        }
        let sums = |steps| Axes::of(&[view(&[4, 6], &[steps, 1]), view(&[4, 6], &[8, 1])]).pairs();
        assert_eq!(sums(7), None);
        assert_eq!(sums(16), Some(Axes(vec![(4, [8, 4]), (3, [1, 1])])));
    }

    #[test]
    fn no_outputs_are_no_products() {
        let kept = [view(&[0, 64], &[768, 0]), view(&[0, 64], &[0, 1])];
        assert_eq!(Matrices::of(&kept, 1), None);
    }

    #[test]
    fn a_convolution_has_the_rows_in_its_weights() {
        let kept = [view(&[1, 16, 5, 6], &[0, 0, 8, 1]), view(&[1, 16, 5, 6], &[0, 9, 0, 0])];
        let matrices = Matrices::of(&kept, 16).unwrap();
        assert_eq!((matrices.row_input, matrices.batches.0.len()), (1, 0));
        assert_eq!((matrices.rows, matrices.columns), (view(&[16], &[9]), view(&[5, 6], &[8, 1])));
        assert_eq!(Matrices::of(&kept, 17), None);
    }
}
