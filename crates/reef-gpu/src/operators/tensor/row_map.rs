//! Formulas of rows, as steps of an interpreter: those of elements are as in `formula`, and some
//! fold a row. What is a normalisation has a kernel of its own: `normal`.

use super::bound::{BoundTensors, SHARED, THREADS};
use super::fold::code;
use super::formula::{Slots, step, views};
use super::normal::launch as normal;
use super::plan::Plan;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Launch, Result};
use reef_op::tensor::{Domain, RowMap, RowTerm, Term, Unary};

/// Elements of a row at most.
const MAX_WIDTH: usize = 2048;
/// Threads of a row at least.
const MIN_LANES: usize = 32;
/// `FOLDED` in kernels/row_map.h.
const FOLDED: u32 = 8;

/// Returns whether [`build`] has a launch. AMD's GPUs, whose waves have 64 lanes, have no kernel.
pub(super) fn fits<V: Vendor>(gpu: &Gpu<V>, op: &RowMap) -> bool {
    gpu.facts().wave == 32 && has_room(op)
}

fn has_room(op: &RowMap) -> bool {
    op.width <= MAX_WIDTH && shared(op, &Slots::of(&elements(op))) <= SHARED
}

/// `row_map` in kernels/row_map.h, or `normalise` in kernels/normal.h.
pub(super) fn build<V: Vendor>(bound: &BoundTensors<'_, V>, op: &RowMap) -> Result<Launch<Gpu<V>>> {
    if !fits(bound.gpu(), op) {
        return Err(bound.refused(format!("{} terms of rows of {}", op.terms.len(), op.width)));
    }
    if let Some(launch) = normal::build(bound, op) {
        return launch;
    }
    let terms = elements(op);
    let (slots, lanes) = (Slots::of(&terms), lanes(op.width));
    let mut plan = Plan::default();
    plan.words(&[terms.len() as u32, lanes as u32, 0, op.width as u32]);
    bound.inputs(&mut plan);
    plan.set(2, plan.len());
    for (k, term) in op.terms.iter().enumerate() {
        let mut words = step(&terms, &slots, k, Domain::F32);
        if let RowTerm::Fold(kind, _) = term {
            words[0] = FOLDED + code(*kind).0;
        }
        plan.words(&words);
    }
    views(bound, &mut plan)?;
    let blocks = (bound.count() / op.width).div_ceil(THREADS / lanes);
    bound.launch_near("row_map_f32", blocks, shared(op, &slots), &plan)
}

/// The terms as those of elements: a fold reads what some function of an element does.
fn elements(op: &RowMap) -> Vec<Term> {
    let terms = op.terms.iter().map(|term| match *term {
        RowTerm::Element(term) => term,
        RowTerm::Fold(_, a) => Term::Unary(Unary::Abs, a),
    });
    terms.collect()
}

/// Threads of a row: a power of two, so many that each has two elements or more.
fn lanes(width: usize) -> usize {
    width.div_ceil(2).next_power_of_two().clamp(MIN_LANES, THREADS)
}

/// Bytes for what a block's steps and slots hold.
fn shared(op: &RowMap, slots: &Slots) -> usize {
    let each = op.width.div_ceil(lanes(op.width));
    (slots.most + 1) * each * THREADS * size_of::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Binary, FoldKind};

    #[test]
    fn wide_rows_and_many_values_do_not_fit() {
        let terms = vec![
            RowTerm::Element(Term::Input(0)),
            RowTerm::Fold(FoldKind::Max, 0),
            RowTerm::Element(Term::Binary(Binary::Sub, 0, 1)),
        ];
        let row = |width, terms: &[RowTerm]| RowMap { width, terms: terms.to_vec() };
        assert!(has_room(&row(MAX_WIDTH, &terms)) && !has_room(&row(MAX_WIDTH + 1, &terms)));
        let mut many: Vec<_> = (0..8).map(|k| RowTerm::Element(Term::Input(k))).collect();
        (0..7).for_each(|k| many.push(RowTerm::Element(Term::Binary(Binary::Add, k, k + 7))));
        assert!(!has_room(&row(MAX_WIDTH, &many)) && has_room(&row(256, &many)));
    }

    #[test]
    fn a_thread_has_two_elements_or_more() {
        assert_eq!([8, 96, 128, 768, 2048].map(lanes), [32, 64, 64, 256, 256]);
    }

    #[test]
    fn a_thread_has_no_more_than_the_kernel_takes() {
        // `MOST` in kernels/row_map.h
        assert!((1..=MAX_WIDTH).all(|width| width.div_ceil(lanes(width)) <= 8));
    }
}
