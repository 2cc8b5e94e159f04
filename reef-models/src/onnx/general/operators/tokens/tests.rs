//! Attention is what loops over batches, heads, queries and keys make.

use crate::tensors::attention::find::joined;
use case::{CASE, Case, Mask};
use reef_op::tensor::Kind;

mod case;
mod places;
mod state;

#[test]
fn attention_is_what_plain_loops_give() {
    let past = Case { tokens: [3, 3, 4], ..CASE };
    for rank in [3, 4] {
        for case in [CASE, Case { heads: [3, 3], tokens: [2, 7, 0], ..CASE }, past] {
            for (causal, mode) in [(false, 0), (true, 3)] {
                Case { rank, causal, mode, ..case }.agrees();
                Case { rank, causal, mode, mask: Mask::Truth, ..case }.agrees();
                let mask = Mask::Number(case.keys() - 1);
                Case { rank, causal, mode, mask, cap: 0.7, ..case }.agrees();
            }
        }
    }
    for mode in 0..4 {
        Case { mode, cap: 0.5, mask: Mask::Truth, ..CASE }.agrees();
    }
}

#[test]
fn each_batch_has_keys_of_its_own() {
    for (causal, mode) in [(false, 2), (true, 3)] {
        // With fewer keys than queries the first queries see none.
        Case { causal, mode, tokens: [4, 6, 0], lengths: Some([6, 3]), ..CASE }.agrees();
        let mask = Mask::Truth;
        Case { causal, mode, mask, tokens: [4, 6, 0], lengths: Some([2, 5]), ..CASE }.agrees();
    }
}

#[test]
fn queries_see_the_keys_of_their_window() {
    for window in [[2, 0], [1, 1], [-1, 1], [0, -1], [i64::MAX, i64::MAX]] {
        for causal in [false, true] {
            Case { window, causal, ..CASE }.agrees();
            Case { window, causal, mask: Mask::Truth, mode: 3, ..CASE }.agrees();
            Case { window, causal, tokens: [3, 3, 4], ..CASE }.agrees();
            // Of fewer keys than queries the first queries see none.
            Case { window, causal, tokens: [4, 6, 0], lengths: Some([6, 3]), ..CASE }.agrees();
        }
    }
}

#[test]
fn keys_and_values_of_before_and_now_are_results() {
    let case = Case { rank: 3, tokens: [3, 3, 4], ..CASE };
    let model = case.model();
    let inputs = case.inputs(&model);
    let have = model.execute(&inputs).unwrap();
    let [k, past] = [1, 3].map(|input| inputs[input].values().to_f64());
    let (keys, columns) = (case.keys(), case.columns[0]);
    assert_eq!(model.outputs[1].spec.dims, [2, 2, keys, columns]);
    for (at, &have) in have[1].values().to_f64().iter().enumerate() {
        let [n, h, t, c] =
            [at / columns / keys / 2, at / columns / keys % 2, at / columns % keys, at % columns];
        let want = match t.checked_sub(4) {
            None => past[((n * 2 + h) * 4 + t) * columns + c],
            Some(t) => k[(n * 3 + t) * 2 * columns + h * columns + c],
        };
        assert_eq!(have, want, "{:?}", [n, h, t, c]);
    }
}

/// Number of steps that are attention, and number of products that are left, of a network without
/// the outputs behind the first.
fn found(case: Case) -> [usize; 2] {
    let mut model = case.model();
    model.outputs.truncate(1);
    let steps = joined(&model.steps, &model.outputs, &|_| true);
    let count = |is: fn(&Kind) -> bool| steps.iter().filter(|step| is(&step.op.kind)).count();
    [count(|kind| matches!(kind, Kind::Attention(_))), count(|k| matches!(k, Kind::Contract(_)))]
}

#[test]
fn devices_find_attention_as_one_operation() {
    for rank in [3, 4] {
        for mask in [Mask::None, Mask::Truth, Mask::Number(5)] {
            for causal in [false, true] {
                let case = Case { rank, mask, causal, ..CASE };
                assert_eq!(found(case), [1, 0], "{case:?}");
            }
        }
        assert_eq!(found(Case { rank, tokens: [5, 5, 3], ..CASE }), [1, 0]);
        let lengths = Some([5, 3]);
        assert_eq!(found(Case { rank, causal: true, lengths, ..CASE }), [1, 0]);
        assert_eq!(found(Case { rank, cap: 0.5, ..CASE }), [0, 2], "no device has soft caps");
    }
}
