//! Attention by tiles of keys, compared with its definition.

use super::*;
use reef_op::tensor::{Attention, Placed, ScoreStep, Truth};

/// Sizes, and what becomes of scores.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    texts: usize,
    heads: usize,
    rows: usize,
    keys: usize,
    depth: usize,
    width: usize,
    /// Keys are turned: elements of one are apart, and not those of several.
    turned: bool,
    masked: bool,
    none_is_zero: bool,
}

const PLAIN: Sizes = Sizes {
    texts: 2,
    heads: 3,
    rows: 5,
    keys: 7,
    depth: 4,
    width: 6,
    turned: false,
    masked: false,
    none_is_zero: false,
};

/// Heads side by side in rows of tokens, as networks have them; the output has them so, too.
fn op(s: Sizes) -> TensorOp {
    let rows = [s.texts, s.rows, s.heads];
    let of_token = [s.heads * s.depth, s.heads * s.width];
    let lies = |last: &[usize], strides: &[usize]| View::new(&[&rows[..], last].concat(), strides);
    let of_text = s.keys * of_token[0];
    let keys = if s.turned {
        [of_text, 0, s.keys * s.depth, 1, s.keys]
    } else {
        [of_text, 0, s.depth, of_token[0], 1]
    };
    let attention = Attention {
        queries: Placed {
            first: 3,
            view: lies(&[s.depth], &[s.rows * of_token[0], of_token[0], s.depth, 1]),
        },
        keys: Placed { first: 2, view: lies(&[s.keys, s.depth], &keys) },
        values: Placed {
            first: 0,
            view: lies(&[s.keys, s.width], &[s.keys * of_token[1], 0, s.width, of_token[1], 1]),
        },
        scores: if s.masked {
            vec![
                ScoreStep::Scale(0.5),
                ScoreStep::Add(lies(&[s.keys], &[s.keys, 0, 0, 1])),
                ScoreStep::Choose {
                    view: lies(&[s.keys], &[0, s.keys, 0, 1]),
                    keep: false,
                    other: f32::NEG_INFINITY,
                },
                ScoreStep::Add(lies(&[s.keys], &[0, 0, 1, 0])),
                ScoreStep::Scale(0.5),
            ]
        } else {
            vec![ScoreStep::Scale(0.25)]
        },
        none_is_zero: s.none_is_zero,
    };
    let single = |elements| spec(Element::F32, &[elements]);
    let tokens = [s.texts * s.rows, s.texts * s.keys];
    let mut inputs = vec![
        single(3 + tokens[0] * of_token[0]),
        single(2 + tokens[1] * of_token[0]),
        single(tokens[1] * of_token[1]),
    ];
    if s.masked {
        inputs.extend([
            single(s.texts * s.keys),
            spec(Element::Bool, &[s.rows * s.keys]),
            single(s.heads),
        ]);
    }
    let output = spec(Element::F32, &[s.texts, s.rows, s.heads * s.width]);
    TensorOp { kind: Kind::Attention(attention), inputs, output }
}

/// Small numbers, so that many keys have a weight; every third condition holds.
fn random_inputs(op: &TensorOp) -> Vec<Array> {
    let made = |(k, spec): (usize, &Spec)| match spec.element {
        Element::Bool => {
            Array::Bool((0..spec.elements()).map(|i| Truth((i % 3 == 1).into())).collect())
        }
        _ => {
            let number = |i: usize| ((i * 7919 + k * 31) % 251) as f32 / 125.0 - 1.0;
            Array::F32((0..spec.elements()).map(number).collect())
        }
    };
    op.inputs.iter().enumerate().map(made).collect()
}

/// Runs all blocks, stopped wherever they look first if `everywhere`, and compares with the
/// definition.
fn agrees(op: TensorOp, inputs: &[Array], everywhere: bool) {
    op.check().unwrap();
    assert!(Heads::of(&op).is_some() && has_joined(&op), "{op:?}");
    let read: Vec<_> = inputs.iter().map(Array::values).collect();
    let want = op.compute(&read, 0..op.output.elements(), &|| false).unwrap().unwrap();
    let places: Vec<_> = inputs.iter().map(stored).collect();
    let spoilt = Array::F32(vec![77.0; op.output.elements()]);
    let (output, op) = (stored(&spoilt), Arc::new(op));
    let (kernel, blocks) = plain(&op, &places, &output).unwrap();
    for index in 0..blocks {
        if everywhere {
            interrupt_everywhere(&kernel, index, &output, &op);
        } else {
            assert_eq!(run(&kernel, index), Outcome::Done);
        }
    }
    let Array::F32(want) = want else { panic!("singles") };
    let have = content(&output, &op.output);
    for (k, (have, want)) in have.as_chunks::<4>().0.iter().zip(want).enumerate() {
        let have = f32::from_le_bytes(*have);
        let near = (have - want).abs() <= 1e-5 * want.abs().max(0.1);
        assert!(
            near || have == want || have.is_nan() && want.is_nan(),
            "{k}: {have} {want} {op:?}"
        );
    }
}

#[test]
fn rows_are_those_of_the_definition_wherever_blocks_are_stopped() {
    let all = [
        PLAIN,
        Sizes { turned: true, masked: true, ..PLAIN },
        // Several tiles of keys, and more than a tile of rows, columns and terms.
        Sizes {
            texts: 1,
            heads: 1,
            rows: 33,
            keys: 300,
            depth: 33,
            width: 40,
            masked: true,
            ..PLAIN
        },
        Sizes {
            texts: 1,
            heads: 2,
            rows: 30,
            keys: 530,
            depth: 16,
            width: 70,
            turned: true,
            ..PLAIN
        },
    ];
    for sizes in all {
        agrees(op(sizes), &random_inputs(&op(sizes)), true);
    }
}

#[test]
fn many_rows_are_several_blocks() {
    let sizes = Sizes { texts: 1, heads: 2, rows: 500, keys: 40, depth: 8, masked: true, ..PLAIN };
    assert!(Heads::of(&op(sizes)).unwrap().blocks() > 2);
    agrees(op(sizes), &random_inputs(&op(sizes)), false);
}

#[test]
fn nan_is_where_the_definition_has_it() {
    let sizes = Sizes { keys: 520, rows: 20, masked: true, ..PLAIN };
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for (input, bad) in (0..4).flat_map(|input| [nan, inf, -inf].map(|bad| (input, bad))) {
        for none_is_zero in [false, true] {
            if none_is_zero && input == 2 {
                continue; // a row that is 0 has no values
            }
            let op = op(Sizes { none_is_zero, ..sizes });
            let mut inputs = random_inputs(&op);
            let Array::F32(values) = &mut inputs[input] else { panic!("singles") };
            let all = values.len();
            [1, all / 2, all - 2].into_iter().for_each(|at| values[at] = bad);
            agrees(op, &inputs, false);
        }
    }
}

#[test]
fn rows_see_nothing_in_one_tile_or_in_all() {
    // The mask that is added: nothing in the first tile, in the last one, at all.
    for hidden in [0..256, 256..300, 0..300] {
        for none_is_zero in [false, true] {
            let op = op(Sizes { texts: 1, keys: 300, masked: true, none_is_zero, ..PLAIN });
            let mut inputs = random_inputs(&op);
            let Array::F32(mask) = &mut inputs[3] else { panic!("singles") };
            mask[hidden.clone()].fill(f32::NEG_INFINITY);
            agrees(op, &inputs, false);
        }
    }
}

#[test]
fn memory_of_a_block_does_not_grow_with_keys() {
    let floats = |keys| {
        let sizes = Sizes { texts: 1, heads: 12, rows: 4096, keys, depth: 64, width: 64, ..PLAIN };
        Heads::of(&op(sizes)).unwrap().scratch()
    };
    assert!(floats(65_536) <= floats(4096) && floats(4096) < 64 * 1024, "{}", floats(4096));
}

#[test]
fn few_rows_are_left_to_separate_operations() {
    let op = op(Sizes { rows: 3, ..PLAIN });
    assert!(!has_joined(&op));
    // Asked for all the same, it is what the definition says.
    let inputs = random_inputs(&op);
    let read: Vec<_> = inputs.iter().map(Array::values).collect();
    let want = op.compute(&read, 0..op.output.elements(), &|| false).unwrap().unwrap();
    let places: Vec<_> = inputs.iter().map(stored).collect();
    let (output, op) = (stored(&want), Arc::new(op));
    output.buffer.write(64, &vec![0; op.output.bytes()]).unwrap();
    let (kernel, blocks) = plain(&op, &places, &output).unwrap();
    (0..blocks).for_each(|index| assert_eq!(run(&kernel, index), Outcome::Done));
    assert_eq!(content(&output, &op.output), want.to_le_bytes());
}
