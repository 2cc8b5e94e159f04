//! Attention of ONNX Runtime's own domain. Expected numbers are ONNX Runtime's.

use super::{assert_near, network};
use crate::handmade::{float, int, ints, node_in, singles, stored, typed, value};
use reef_op::tensor::Array;

const MS: &str = "com.microsoft";
const I32: i64 = 6;
const I64: i64 = 7;

/// Results of a node on two tokens of two columns, and other constants.
fn results(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[Vec<u8>],
    constants: &[Vec<u8>],
) -> Vec<Array> {
    let ends = [node_in(MS, op, inputs, outputs, attributes), value(11, "x", &[1, 2, 2])];
    let named: Vec<_> = outputs.iter().map(|output| value(12, output, &[])).collect();
    let graph = [&ends[..], &named, constants].concat();
    let network = network(&graph, &[]).unwrap_or_else(|why| panic!("{why}"));
    network.execute(&[Array::F32(vec![1.0, -1.0, 0.5, 2.0])]).unwrap()
}

/// Weights and bias of queries, keys and values.
fn weights() -> Vec<Vec<u8>> {
    vec![
        singles("w", &[2, 6], |k| (k % 5) as f32 * 0.5 - 0.5),
        singles("b", &[6], |k| k as f32 * 0.25),
    ]
}

fn attend(more: &[&str], heads: i64, constant: &[Vec<u8>]) -> Array {
    let inputs = [&["x", "w", "b"][..], more].concat();
    let constants = [&weights()[..], constant].concat();
    results("Attention", &inputs, &["y"], &[int("num_heads", heads)], &constants).remove(0)
}

#[test]
fn heads_attend_to_tokens_that_the_mask_shows() {
    assert_near(&attend(&[], 2, &[]), &[2.545920, 0.817235, 2.247174, 0.998327]);
    let mask = stored("m", I32, &[1, 2], &[1, 0, 0, 0, 0, 0, 0, 0]);
    assert_near(&attend(&["m"], 1, &[mask]), &[3.0, 0.75, 3.0, 0.75]);
    let length = stored("m", I32, &[1], &[1, 0, 0, 0]);
    assert_near(&attend(&["m"], 1, &[length]), &[3.0, 0.75, 3.0, 0.75]);
    let end_and_begin = stored("m", I32, &[2], &[1, 0, 0, 0, 0, 0, 0, 0]);
    assert_near(&attend(&["m"], 1, &[end_and_begin]), &[3.0, 0.75, 3.0, 0.75]);
}

/// Queries and keys are 0, so that all tokens count the same. Values are 1 and 2 by their scales
/// and zero points, and 0.5 more by the bias.
#[test]
fn tokens_of_8_bits_are_attended_to() {
    let singles = |name: &str, list: &[f32]| {
        let raw: Vec<u8> = list.iter().flat_map(|x| x.to_le_bytes()).collect();
        stored(name, 1, &[list.len() as i64], &raw)
    };
    let inputs = ["x", "w", "b", "sx", "sw", "", "zx", "zw"];
    let graph = [
        node_in(MS, "QAttention", &inputs, &["y", "present"], &[int("num_heads", 1)]),
        stored("w", 3, &[1, 3], &[0, 0, 6]),
        singles("b", &[0.0, 0.0, 0.5]),
        singles("sx", &[0.5]),
        singles("sw", &[1.0, 1.0, 0.25]),
        stored("zx", 2, &[1], &[1]),
        stored("zw", 3, &[3], &[0, 0, 2]),
        typed(11, "x", 2, &[1, 2, 1]),
        value(12, "y", &[]),
        value(12, "present", &[]),
    ];
    let network = network(&graph, &[]).unwrap();
    let made = network.execute(&[Array::U8(vec![3, 5])]).unwrap();
    assert_near(&made[0], &[2.0, 2.0]);
    assert_near(&made[1], &[0.0, 0.0, 1.5, 2.5]);
}

#[test]
fn tokens_of_a_past_come_first() {
    let past = singles("p", &[2, 1, 1, 1, 2], |k| k as f32 * 0.5);
    let constants = [&weights()[..], &[past]].concat();
    let attributes = [int("num_heads", 1), int("unidirectional", 1)];
    let inputs = ["x", "w", "b", "", "p"];
    let made = results("Attention", &inputs, &["y", "present"], &attributes, &constants);
    assert_near(&made[0], &[2.022094, 1.116715, 0.859714, 1.016002]);
    let present = [0.0, 0.5, 0.0, 0.25, 2.75, 4.25, 1.0, 1.5, 3.0, 0.75, 0.75, 1.0];
    assert_near(&made[1], &present);
}

/// The first token is padding: its query sees neither a key of its own nor, by far, a later one.
#[test]
fn padding_before_a_text_sees_no_later_token() {
    let mask = stored("m", I32, &[1, 2], &[0, 0, 0, 0, 1, 0, 0, 0]);
    let constants = [&weights()[..], &[mask]].concat();
    let attributes = [int("num_heads", 1), int("unidirectional", 1)];
    let made = results("Attention", &["x", "w", "b", "m"], &["y"], &attributes, &constants);
    assert_near(&made[0], &[3.0, 0.75, 0.75, 1.0]);
}

#[test]
fn keys_of_other_tokens_are_attended_to() {
    let keys = || singles("k", &[1, 3, 2], |k| [1.0, 0.0, 0.0, 1.0, 0.5, 0.5][k as usize]);
    let attributes = [int("num_heads", 1), float("scale", 0.5)];
    let of = |inputs: &[&str], constants: &[Vec<u8>]| {
        results("MultiHeadAttention", inputs, &["y"], &attributes, constants).remove(0)
    };
    let all = [0.660078, 0.339922, 0.377843, 0.622157];
    assert_near(&of(&["x", "k", "k"], &[keys()]), &all);
    let length = stored("m", I32, &[1], &[2, 0, 0, 0]);
    let two = [0.731059, 0.268941, 0.320821, 0.679179];
    assert_near(&of(&["x", "k", "k", "", "m"], &[keys(), length]), &two);
}

#[test]
fn columns_rotate_by_the_place_of_their_token() {
    let tables = [
        singles("c", &[3, 1], |k| [1.0, 0.5, 0.0][k as usize]),
        singles("s", &[3, 1], |k| [0.0, 0.25, 1.0][k as usize]),
        stored("p", I64, &[1], &[1, 0, 0, 0, 0, 0, 0, 0]),
    ];
    let made = results("RotaryEmbedding", &["x", "p", "c", "s"], &["y"], &[], &tables);
    assert_near(&made[0], &[0.75, -0.25, -2.0, 0.5]);
}

#[test]
fn attention_that_does_not_fit_is_refused() {
    let say = |attributes: &[Vec<u8>]| {
        let graph = [
            node_in(MS, "Attention", &["x", "w"], &["y"], attributes),
            singles("w", &[2, 6], |_| 1.0),
            value(11, "x", &[1, 2, 2]),
            value(12, "y", &[]),
        ];
        network(&graph, &[]).unwrap_err()
    };
    assert!(say(&[]).ends_with("attribute num_heads must be at least 1"));
    let sizes = ints("qkv_hidden_sizes", &[i64::MAX, i64::MAX, 6]);
    assert!(say(&[int("num_heads", 1), sizes]).contains("for hidden sizes"));
    assert!(say(&[int("num_heads", 3)]).ends_with("float32[1, 2, 2] in 3 heads"));
    let said = say(&[int("num_heads", 1), int("do_rotary", 1)]);
    assert!(said.contains("attribute do_rotary must be 0, got 1, or run the file"), "{said}");
}

/// Means of two new tokens that are all there are, of one head, for keys of `k` and values 1 to 4.
fn grouped(query: &str, more: &[&str], attributes: &[Vec<u8>], constants: &[Vec<u8>]) -> Array {
    let first = [query, "k", "v", "", "", "last", "total"];
    let heads = [int("num_heads", 1), int("kv_num_heads", 1)];
    let all = [
        singles("v", &[1, 2, 2], |k| k as f32 + 1.0),
        stored("last", I32, &[1], &1i32.to_le_bytes()),
        stored("total", I32, &[1], &2i32.to_le_bytes()),
    ];
    let (inputs, attributes) = ([&first[..], more].concat(), [&heads[..], attributes].concat());
    let all = [&all[..], constants].concat();
    results("GroupQueryAttention", &inputs, &["y"], &attributes, &all).remove(0)
}

#[test]
fn tokens_see_later_ones_without_a_causal_mask() {
    let keys = [singles("k", &[1, 2, 2], |_| 0.0)];
    let made = |causal| grouped("x", &[], &[int("causal", causal)], &keys);
    assert_near(&made(1), &[1.0, 2.0, 2.0, 3.0]);
    assert_near(&made(0), &[2.0, 3.0, 2.0, 3.0]);
}

/// ONNX Runtime writes -1, the default, into files that it optimizes.
#[test]
fn smooth_softmax_is_on_at_1_alone() {
    let keys = [singles("k", &[1, 2, 2], |_| 0.0)];
    let made = |smooth| grouped("x", &[], &[int("smooth_softmax", smooth)], &keys);
    assert_near(&made(-1), &[1.0, 2.0, 2.0, 3.0]);
    assert_near(&made(0), &[1.0, 2.0, 2.0, 3.0]);
    assert_near(&made(1), &[0.5, 1.0, 4.0 / 3.0, 2.0]);
}

/// Both queries see the first token alone, as in ONNX Runtime.
#[test]
fn padding_of_a_prompt_is_hidden_without_a_causal_mask() {
    let constants = [
        singles("k", &[1, 2, 2], |_| 0.0),
        singles("v", &[1, 2, 2], |k| k as f32 + 1.0),
        stored("last", I32, &[1], &0i32.to_le_bytes()),
        stored("total", I32, &[1], &2i32.to_le_bytes()),
    ];
    let inputs = ["x", "k", "v", "", "", "last", "total"];
    let attributes = [int("num_heads", 1), int("kv_num_heads", 1), int("causal", 0)];
    let made = results("GroupQueryAttention", &inputs, &["y"], &attributes, &constants).remove(0);
    assert_near(&made, &[1.0, 2.0, 1.0, 2.0]);
}

/// As the operator's documentation says.
#[test]
fn places_of_a_first_prompt_count_on_from_the_first() {
    let made = |places: [i64; 2]| {
        let raw: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
        let constants = [
            singles("k", &[1, 2, 2], |k| k as f32 * 0.5),
            singles("c", &[4, 1], |k| [1.0, 0.5, 0.0, -0.5][k as usize]),
            singles("s", &[4, 1], |k| [0.0, 0.25, 1.0, 0.75][k as usize]),
            stored("p", I64, &[1, 2], &raw),
        ];
        grouped("x", &["c", "s", "p"], &[int("do_rotary", 1)], &constants)
    };
    let counted = made([2, 3]);
    assert_near(&made([2, 0]), &counted.values().to_f64());
    assert!(made([0, 1]).values().to_f64() != counted.values().to_f64());
}

/// One head has all columns, so that the norm of a head is that of a token.
#[test]
fn norms_of_queries_and_keys_come_before_their_product() {
    let weights = || singles("g", &[2], |k| k as f32 + 0.5);
    let keys = || singles("k", &[1, 2, 2], |k| k as f32 * 0.5 - 0.5);
    let inside = {
        let inputs = ["", "", "", "", "", "", "", "g", "g"];
        grouped("x", &inputs, &[], &[keys(), weights()])
    };
    let norm = |from: &str, to: &str| {
        let op = "SimplifiedLayerNormalization";
        node_in(MS, op, &[from, "g"], &[to], &[float("epsilon", 1e-6)])
    };
    let keys = singles("of_k", &[1, 2, 2], |k| k as f32 * 0.5 - 0.5);
    let before = [norm("x", "q"), norm("of_k", "k"), keys, weights()];
    assert_near(&inside, &grouped("q", &[], &[], &before).values().to_f64());
    let one = {
        let inputs = ["", "", "", "", "", "", "", "g"];
        let first = ["x", "v", "v", "", "", "last", "total"];
        let parts = [
            node_in(
                MS,
                "GroupQueryAttention",
                &[&first[..], &inputs].concat(),
                &["y"],
                &[int("num_heads", 1), int("kv_num_heads", 1)],
            ),
            weights(),
            singles("v", &[1, 2, 2], |k| k as f32),
            stored("last", I32, &[1], &1i32.to_le_bytes()),
            stored("total", I32, &[1], &2i32.to_le_bytes()),
            value(11, "x", &[1, 2, 2]),
            value(12, "y", &[]),
        ];
        network(&parts, &[]).unwrap_err()
    };
    assert!(one.contains("q_norm_weight and k_norm_weight come together"), "{one}");
}

/// Newer files have a number for queries and one for keys.
#[test]
fn norms_of_queries_and_keys_have_numbers_of_their_own() {
    let constants = || {
        let keys = singles("k", &[1, 2, 2], |k| k as f32 * 0.5 - 0.5);
        [keys, singles("g", &[2], |k| k as f32 + 0.5)]
    };
    let inputs = ["", "", "", "", "", "", "", "g", "g"];
    let made =
        |attributes: &[Vec<u8>]| grouped("x", &inputs, attributes, &constants()).values().to_f64();
    let (both, usual) = (made(&[float("qk_norm_epsilon", 0.5)]), made(&[]));
    let each = [float("q_norm_epsilon", 0.5), float("k_norm_epsilon", 0.5)];
    assert_eq!(made(&each), both);
    let over = [&each[..], &[float("qk_norm_epsilon", 2.0)]].concat();
    assert_eq!(made(&over), both);
    let first = made(&each[..1]);
    assert!(first != usual && first != both && both != usual, "{first:?}");
}
