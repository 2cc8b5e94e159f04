//! Places of tokens, caches, and what is refused.

use super::case::singles;
use crate::Model;
use crate::onnx::general::operators::handmade::{file, int, node_of, text, typed};
use crate::tensors::model::TensorModel;
use reef_op::tensor::Array;

/// A network of one node, of inputs with their types and sizes.
fn model(
    op: &str,
    inputs: &[(&str, i64, &[i64])],
    said: &[Vec<u8>],
) -> Result<TensorModel, String> {
    let names: Vec<&str> = inputs.iter().map(|input| input.0).collect();
    let ends = inputs.iter().map(|&(name, element, dims)| typed(11, name, element, dims));
    let mut graph = vec![node_of(op, &names, &["y"], said), typed(12, "y", 1, &[])];
    graph.extend(ends);
    let bytes = file(24, &graph);
    let read = Model::from_onnx(&bytes, "t").tensors_only().read();
    read.map(|model| model.tensors().unwrap().clone()).map_err(|error| error.to_string())
}

fn run(model: &TensorModel, inputs: &[Array]) -> Vec<f32> {
    let made = model.execute(inputs).unwrap();
    made[0].values().to_f64().iter().map(|&x| x as f32).collect()
}

const BATCH: usize = 2;
const HEADS: usize = 3;
const TOKENS: usize = 4;
const COLUMNS: usize = 6;

#[test]
fn pairs_of_columns_are_turned() {
    for (rank, interleaved, turned) in [(3, false, 0), (4, true, 0), (3, true, 4), (4, false, 4)] {
        let half = if turned == 0 { COLUMNS / 2 } else { turned / 2 };
        let dims: &[i64] = if rank == 3 { &[2, 4, 18] } else { &[2, 3, 4, 6] };
        let table: &[i64] = &[9, half as i64];
        let said = [
            int("num_heads", HEADS as i64),
            int("interleaved", interleaved.into()),
            int("rotary_embedding_dim", turned as i64),
        ];
        let inputs = [("x", 1, dims), ("cos", 1, table), ("sin", 1, table), ("at", 7, &[2, 4])];
        let model = model("RotaryEmbedding", &inputs, &said).unwrap();
        let places: [i64; BATCH * TOKENS] = [8, 0, 3, 3, 1, 7, 2, 6];
        let [x, cos, sin] = [BATCH * HEADS * TOKENS * COLUMNS, 9 * half, 9 * half]
            .map(|count| singles(count, count));
        let arrays = [x.clone(), cos.clone(), sin.clone()].map(Array::F32);
        let have = run(&model, &[&arrays[..], &[Array::I64(places.to_vec())]].concat());
        let mut want = x.clone();
        for (token, &place) in places.iter().enumerate() {
            for head in 0..HEADS {
                let first = match rank {
                    3 => (token * HEADS + head) * COLUMNS,
                    _ => ((token / TOKENS * HEADS + head) * TOKENS + token % TOKENS) * COLUMNS,
                };
                for pair in 0..half {
                    let columns =
                        if interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + half] };
                    let [a, b] = columns.map(|column| first + column);
                    let at = place as usize * half + pair;
                    want[a] = x[a] * cos[at] - x[b] * sin[at];
                    want[b] = x[b] * cos[at] + x[a] * sin[at];
                }
            }
        }
        let near = have.iter().zip(&want).all(|(have, want)| (have - want).abs() < 1e-6);
        assert!(near && have.len() == want.len(), "{rank}: {have:?}, {want:?} wanted");
    }
}

#[test]
fn new_tokens_are_at_the_places_of_their_batch() {
    let (room, columns) = (5, 2);
    for (len, circular, first) in [(3, false, [2, 0]), (3, true, [4, 1]), (1, false, [4, 2])] {
        for heads in [1, HEADS] {
            let dims = |tokens: usize| [2, heads as i64, tokens as i64, columns as i64];
            let mode = text("mode", if circular { "circular" } else { "linear" });
            let (old, new) = (dims(room), dims(len));
            let inputs = [("old", 1, &old[..]), ("new", 1, &new[..]), ("first", 7, &[2][..])];
            let model = model("TensorScatter", &inputs, &[mode]).unwrap();
            let [old, new] =
                [room, len].map(|tokens| singles(2 * heads * tokens * columns, tokens));
            let arrays = [old.clone(), new.clone()].map(Array::F32);
            let have = run(&model, &[&arrays[..], &[Array::I64(first.into())]].concat());
            let mut want = old;
            for row in 0..2 * heads {
                for (token, column) in (0..len).flat_map(|t| (0..columns).map(move |c| (t, c))) {
                    let place = (first[row / heads] as usize + token) % room;
                    want[(row * room + place) * columns + column] =
                        new[(row * len + token) * columns + column];
                }
            }
            assert_eq!(have, want, "{len} tokens, {circular}, {heads}");
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_the_node() {
    let said = |op: &str, inputs: &[(&str, i64, &[i64])], said: &[Vec<u8>]| {
        model(op, inputs, said).unwrap_err()
    };
    let (q, flat): (&[i64], &[i64]) = (&[1, 4, 5, 8], &[1, 5, 32]);
    let error = said("Attention", &[("q", 1, flat), ("k", 1, flat), ("v", 1, flat)], &[]);
    assert_eq!(
        error,
        "t: node \"node\" (Attention): attribute q_num_heads is missing for float32[1, 5, 32]"
    );
    let error =
        said("Attention", &[("q", 1, q), ("k", 1, &[1, 3, 5, 8]), ("v", 1, &[1, 3, 5, 8])], &[]);
    assert!(error.contains("queries [1, 4, 5, 8], keys [1, 3, 5, 8]"), "{error}");
    let all = [("q", 1, q), ("k", 1, q), ("v", 1, q)];
    let error = said("Attention", &[&all[..], &[("mask", 9, &[3, 5])]].concat(), &[]);
    assert!(error.ends_with("a mask of bool[3, 5] for scores of [1, 4, 5, 5]"), "{error}");
    let error = said("Attention", &[("q", 7, q), ("k", 7, q), ("v", 7, q)], &[]);
    assert!(error.ends_with("heads of int64[1, 4, 5, 8]"), "{error}");
    let error = said("TensorScatter", &[("old", 1, q), ("new", 1, &[1, 4, 6, 8])], &[]);
    assert!(error.ends_with("6 tokens into a cache of 5"), "{error}");
    let angles: &[i64] = &[1, 5, 3];
    let error =
        said("RotaryEmbedding", &[("x", 1, q), ("cos", 1, angles), ("sin", 1, angles)], &[]);
    assert!(error.contains("angles float32[1, 5, 3] for [1, 5, 4]"), "{error}");
}
