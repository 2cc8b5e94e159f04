//! Layout of the rows and the columns of a product in memory, as kernels/product.h is told.

use super::matrices::{Axes, Matrices};
use super::params::SideParams;
use crate::operators::tensor::plan::Plan;
use reef_op::tensor::View;

/// Elements that are copied at once.
const WIDE: usize = 4;

/// The side of `matrices` that input `input` has, which begins at `data`. Views of more than one
/// axis go into `plan`.
pub(super) fn side(
    matrices: &Matrices,
    summed: &Axes,
    input: usize,
    data: u64,
    plan: &mut Plan,
) -> SideParams {
    let lines = matrices.lines_of(input).merged();
    let batches = matrices.batches.view(input).merged();
    let terms = summed.view(input);
    let along = terms.step() == 1 || lines.step() != 1;
    let [inner, outer] = if along { [&terms, &lines] } else { [&lines, &terms] };
    let wide = is_whole(inner)
        && [outer, &batches].iter().all(|view| view.strides.iter().all(|s| s % WIDE == 0))
        && data.is_multiple_of(16);
    let (step, view) = plan.step_or_view(&lines);
    let (batch_step, batch_view) = plan.step_or_view(&batches);
    SideParams {
        data,
        step,
        view,
        batch_step,
        batch_view,
        term_step: terms.step() as u32,
        input: input as u32,
        along: along.into(),
        wide: wide.into(),
    }
}

/// Returns whether it consists of whole chunks: its innermost elements adjoin, and all others are
/// some chunks apart.
fn is_whole(view: &View) -> bool {
    let Some((last, outer)) = view.strides.split_last() else { return false };
    let size = view.dims.last().copied().unwrap_or(0);
    *last == 1 && size % WIDE == 0 && outer.iter().all(|stride| stride % WIDE == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sides of 20 rows and 24 columns with these strides, and sums of `len` terms.
    fn sides(rows: usize, columns: usize, len: usize, terms: [usize; 2]) -> [SideParams; 2] {
        let kept = [View::new(&[20, 24], &[rows, 0]), View::new(&[20, 24], &[0, columns])];
        let summed = Axes::of(&terms.map(|step| View::new(&[len], &[step])));
        let matrices = Matrices::of(&kept, 8).unwrap();
        let mut plan = Plan::default();
        plan.words(&[0]);
        [0, 1].map(|input| side(&matrices, &summed, input, 64, &mut plan))
    }

    #[test]
    fn adjoining_elements_are_copied_in_chunks() {
        let [rows, columns] = sides(32, 1, 32, [1, 24]);
        assert_eq!((rows.along, rows.wide, rows.step, rows.term_step), (1, 1, 32, 1));
        assert_eq!((columns.along, columns.wide, columns.step, columns.term_step), (0, 1, 1, 24));
    }

    #[test]
    fn elements_outside_whole_chunks_are_copied_one_by_one() {
        let [rows, columns] = sides(33, 1, 33, [1, 25]);
        assert_eq!((rows.along, rows.wide), (1, 0), "33 terms");
        assert_eq!((columns.along, columns.wide), (0, 0), "25 from term to term");
        let [rows, _] = sides(34, 1, 32, [1, 24]);
        assert_eq!(rows.wide, 0, "34 from row to row");
    }
}
