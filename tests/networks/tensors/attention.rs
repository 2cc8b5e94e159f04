//! Random attention as one operation, on devices that have it so.

use super::bench::{Case, agrees};
use super::kinds::{array, pick};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef::op::Operators;
use reef::tensor::{Array, Attention, Element, Kind, Placed, ScoreStep, Spec, TensorOp, View};
use std::sync::Arc;

/// Runs `cases` of them, every second one preempted as well, within `tolerance` of plain loops. The
/// device has at least `least` of them, or none if that is 0.
pub(crate) fn joined_attention_agrees<D: Operators>(
    device: &D,
    tolerance: f64,
    [least, cases]: [u64; 2],
) {
    let mut had = 0;
    for seed in 0..cases {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let case = Case { tolerance, ..attention(rng) };
        if device.has_joined(&case.op) {
            println!("attention, seed {seed}");
            agrees(device, &case, seed.is_multiple_of(2).then_some(rng));
            had += 1;
        }
    }
    assert!(had >= least && (had == 0) == (least == 0), "{had} of {cases}");
}

/// Heads side by side in rows of tokens, one for some or all, in up to four blocks of keys; biases
/// and conditions for texts, rows and keys or some of these.
fn attention(rng: &mut ChaCha8Rng) -> Case {
    let [texts, heads] = [2, 3].map(|most| rng.random_range(1..=most));
    let [rows, keys] = [70, 900].map(|most| rng.random_range(4..=most));
    let [depth, width] = [70, 70].map(|most| rng.random_range(1..=most));
    let shared: bool = rng.random();
    let dims = [texts, rows, heads];
    let view = |last: &[usize], strides: &[usize]| View {
        dims: [&dims[..], last].concat(),
        strides: strides.to_vec(),
    };
    let placed = |view| Placed { first: 0, view };
    let key_heads = if shared { 1 } else { heads };
    let of_keys = |size: usize| {
        let token = key_heads * size;
        view(&[keys, size], &[keys * token, 0, if shared { 0 } else { size }, token, 1])
    };
    let queries = view(&[depth], &[rows * heads * depth, heads * depth, depth, 1]);
    let mut scores = vec![ScoreStep::Scale(1.0 / depth as f32)];
    let single = |elements| Spec { element: Element::F32, dims: vec![elements] };
    let mut inputs = vec![
        single(texts * rows * heads * depth),
        single(texts * keys * key_heads * depth),
        single(texts * keys * key_heads * width),
    ];
    for _ in 0..rng.random_range(0..3) {
        let strides = pick(rng, &[[0, keys, 0, 1], [keys, 0, 0, 1], [rows, 1, 0, 0]]);
        let view = view(&[keys], &strides);
        let element = pick(rng, &[Element::F32, Element::Bool]);
        inputs.push(Spec { element, dims: vec![texts * rows * keys] });
        scores.push(match element {
            Element::Bool => ScoreStep::Choose { view, keep: rng.random(), other: -3.0 },
            _ => ScoreStep::Add(view),
        });
    }
    let kind = Kind::Attention(Attention {
        queries: placed(queries),
        keys: placed(of_keys(depth)),
        values: placed(of_keys(width)),
        scores,
        none_is_zero: rng.random(),
    });
    let mut arrays: Vec<Array> = inputs.iter().map(|spec| array(rng, spec)).collect();
    // Sums of values of one sign lose nothing to rounding.
    let Array::F32(values) = &mut arrays[2] else { panic!("singles") };
    values.iter_mut().for_each(|value| *value = value.abs() + 0.5);
    let output = Spec { element: Element::F32, dims: vec![texts, rows, heads * width] };
    Case { op: Arc::new(TensorOp { kind, inputs, output }), inputs: arrays, tolerance: 1e-4 }
}
