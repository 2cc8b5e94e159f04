//! Networks with attention give what their separate operations give.

use super::find::joined;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::tensors::builder::Builder;
use crate::tensors::model::TensorModel;
use heads::{Heads, NEVER, any_heads, heads};
use proptest::prelude::*;
use reef_op::tensor::{Array, Attention, Element, FoldKind, Kind, ScoreStep, Spec};

mod heads;

/// Copies the network and joins its attention.
fn of_joined(model: &TensorModel) -> TensorModel {
    let mut model = model.clone();
    model.steps = joined(&model.steps, &model.outputs, &|_| true);
    model
}

/// The attention that a network is, if it is nothing else.
#[track_caller]
fn only(model: &TensorModel) -> Attention {
    let others = |kind: &Kind| matches!(kind, Kind::Map(_) | Kind::Move(_));
    let mut steps: Vec<_> = model.steps.iter().filter(|step| !others(&step.op.kind)).collect();
    match (steps.pop().map(|step| step.op.kind.clone()), steps.is_empty()) {
        (Some(Kind::Attention(attention)), true) => attention,
        other => panic!("{other:?}"),
    }
}

fn inputs(model: &TensorModel, seed: u32) -> Vec<Array> {
    let number =
        |i: u32| (i.wrapping_mul(2_654_435_761).rotate_left(9) % 1000) as f32 / 250.0 - 2.0;
    let made = |(k, count): (usize, usize)| match model.inputs[k].name.as_str() {
        "flags" => Array::F32((0..count).map(|i| f32::from(i % 3 > 0)).collect()),
        _ => Array::F32((0..count as u32).map(|i| number(i + seed + 977 * k as u32)).collect()),
    };
    model.inputs.iter().map(|port| port.spec.elements()).enumerate().map(made).collect()
}

#[track_caller]
fn same(model: &TensorModel, inputs: &[Array]) {
    let [want, have] =
        [model, &of_joined(model)].map(|model| model.execute(inputs).unwrap()[0].values().to_f64());
    for (i, (want, have)) in want.iter().zip(&have).enumerate() {
        let near = want == have || (want - have).abs() <= 2e-5 * want.abs().max(0.1);
        assert!(near || want.is_nan() && have.is_nan(), "output {i} is {have}, {want} wanted");
    }
}

#[test]
fn heads_that_are_split_and_put_together_are_views() {
    let model = heads().model();
    let whole = of_joined(&model);
    assert_eq!((model.steps.len(), whole.steps.len()), (11, 1), "{:?}", whole.steps);
    let attention = only(&whole);
    assert_eq!(attention.rows(), [2, 5, 3]);
    assert_eq!(attention.queries.view.strides, [60, 12, 4, 1]);
    assert_eq!(attention.keys.view.strides, [84, 0, 4, 12, 1]);
    assert_eq!(attention.values.view.strides, [126, 0, 6, 18, 1]);
    let [ScoreStep::Scale(scale), ScoreStep::Add(mask)] = attention.scores.as_slice() else {
        panic!("{:?}", attention.scores)
    };
    assert_eq!((*scale, mask.strides.as_slice()), (0.5, &[7, 0, 0, 1][..]));
    same(&model, &inputs(&model, 1));
}

#[test]
fn factors_of_queries_and_keys_are_one_scale() {
    for scale in 0..5 {
        let model = Heads { scale, mask: 0, ..heads() }.model();
        assert_eq!(only(&of_joined(&model)).scores, [ScoreStep::Scale(0.5)], "{scale}");
    }
}

#[test]
fn packed_operands_and_shared_heads_are_views() {
    let packed = Heads { packed: true, queries: 7, width: 4, ..heads() }.model();
    let attention = only(&of_joined(&packed));
    assert_eq!(
        [&attention.queries, &attention.keys, &attention.values].map(|placed| placed.first),
        [0, 12, 24]
    );
    let shared = Heads { heads: 4, key_heads: 2, ..heads() }.model();
    assert_eq!(
        only(&of_joined(&shared)).keys.view.strides,
        [56, 0, 4, 0, 8, 1],
        "{:?}",
        attention.keys
    );
    [packed, shared].iter().for_each(|model| same(model, &inputs(model, 2)));
}

#[test]
fn rows_that_see_nothing_are_no_numbers_or_zero() {
    for none_is_zero in [false, true] {
        let model = Heads { masked: 7, none_is_zero, ..heads() }.model();
        let made = of_joined(&model).execute(&inputs(&model, 3)).unwrap();
        let expected = |x: &f64| if none_is_zero { *x == 0.0 } else { x.is_nan() };
        assert!(made[0].values().to_f64().iter().all(expected), "{made:?}");
        assert_eq!(only(&of_joined(&model)).none_is_zero, none_is_zero);
        same(&model, &inputs(&model, 3));
    }
}

#[test]
fn nan_and_infinity_reach_the_same_results() {
    for (input, bad) in
        (0..3).flat_map(|input| [f32::NAN, f32::INFINITY, NEVER].map(|bad| (input, bad)))
    {
        for none_is_zero in [false, true] {
            let model = Heads { none_is_zero: none_is_zero && input < 2, ..heads() }.model();
            let mut given = inputs(&model, 4);
            let Array::F32(values) = &mut given[input] else { panic!("singles") };
            values[9] = bad;
            same(&model, &given);
        }
    }
}

#[test]
fn weights_with_other_readers_are_still_written() {
    let ledger = Ledger::new(&Budget::new(1 << 30));
    let mut b = Builder::new(&ledger);
    let spec = |dims: &[usize]| Spec { element: Element::F32, dims: dims.to_vec() };
    let [q, k, v] = [("q", [5, 4]), ("k", [4, 7]), ("v", [7, 3])]
        .map(|(name, dims)| b.input(name, spec(&dims)).unwrap());
    let scores = b.matmul(&q, &k).unwrap();
    let weights = b.softmax(&scores, &[1], false).unwrap();
    let made = b.matmul(&weights, &v).unwrap();
    let best = b.fold_axes(&weights, &[1], FoldKind::Max).unwrap();
    let model = b.finish("m", vec![("y".into(), made), ("best".into(), best)]).unwrap();
    assert_eq!(of_joined(&model).steps, model.steps);
}

#[test]
fn a_device_without_it_gets_separate_operations() {
    let model = heads().model();
    assert_eq!(joined(&model.steps, &model.outputs, &|_| false), model.steps);
}

#[test]
fn a_long_sequence_needs_no_memory_for_scores() {
    let long =
        Heads { texts: 1, heads: 12, key_heads: 12, queries: 4096, keys: 4096, mask: 0, ..heads() };
    let model = Heads { depth: 64, width: 64, ..long }.model();
    let scores = 12 * 4096 * 4096 * 4;
    assert!(model.arena().bytes >= scores);
    let joined = of_joined(&model).steps;
    assert_eq!(model.arena_of(joined.chunks(1)).bytes, 0, "inputs and outputs are all");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_attention_is_found_and_gives_the_same(heads in any_heads(), seed in 0..1000u32) {
        let model = heads.model();
        only(&of_joined(&model));
        same(&model, &inputs(&model, seed));
    }
}
