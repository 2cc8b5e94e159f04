//! Operators in which ONNX Runtime puts several of ONNX's together.

use super::{assert_near, doubles, network, outputs};
use crate::handmade::{
    float, floats, int, node, node_in, open, scalar, singles, stored, text, value,
};
use reef_op::tensor::Array;

const MS: &str = "com.microsoft";
const FLOAT: i64 = 1;
const U8: i64 = 2;
const I32: i64 = 6;

/// Result of a node on `x` of two rows of two, and other constants.
fn result(op: &str, inputs: &[&str], attributes: &[Vec<u8>], constants: &[Vec<u8>]) -> Array {
    let ends =
        [node_in(MS, op, inputs, &["y"], attributes), value(11, "x", &[2, 2]), value(12, "y", &[])];
    let graph = [&ends[..], constants].concat();
    outputs(&graph, &[2, 2], Array::F32(vec![1.0, -1.0, 0.5, 2.0])).remove(0)
}

#[test]
fn gelus_add_their_bias_first() {
    let bias = [singles("b", &[2], |k| k as f32)];
    let exact = [0.841345, 0.0, 0.345731, 2.995950];
    assert_near(&result("BiasGelu", &["x", "b"], &[], &bias), &exact);
    let near = [0.841192, 0.0, 0.345714, 2.996363];
    assert_near(&result("FastGelu", &["x", "b"], &[], &bias), &near);
    let quick = [0.817574, -0.182426, 0.339589, 1.905148];
    let alpha = [float("alpha", 1.5)];
    assert_near(&result("QuickGelu", &["x"], &alpha, &[]), &quick);
    let plain = [0.841345, -0.158655, 0.345731, 1.954500];
    assert_near(&result("Gelu", &["x"], &[], &[]), &plain);
}

#[test]
fn fused_products_transpose_scale_and_activate() {
    let weights = [singles("w", &[2, 2], |k| k as f32)];
    let attributes = [int("transA", 1), int("transB", 1), float("alpha", 0.5)];
    let made = result("FusedMatMul", &["x", "w"], &attributes, &weights);
    assert_near(&made, &[0.25, 1.75, 1.0, 2.0]);
    let attributes = [text("activation", "LeakyRelu"), float("activation_alpha", 0.5)];
    let made = result("FusedGemm", &["x", "w"], &attributes, &weights);
    assert_near(&made, &[-1.0, -1.0, 4.0, 6.5]);
    let said = network(
        &[
            node_in(MS, "FusedMatMul", &["x", "x"], &["y"], &[int("transBatchA", 1)]),
            value(11, "x", &[2, 2]),
            value(12, "y", &[]),
        ],
        &[],
    );
    assert!(said.unwrap_err().ends_with("a product of batches of float32[2, 2]"));
}

#[test]
fn fused_convolutions_add_a_summand_and_activate() {
    let graph = [
        node_in(
            MS,
            "FusedConv",
            &["x", "w", "b", "x"],
            &["y"],
            &[text("activation", "Clip"), floats("activation_params", &[-1.0, 4.0])],
        ),
        singles("w", &[1, 1, 1, 1], |_| 2.0),
        singles("b", &[1], |_| 0.5),
        value(11, "x", &[1, 1, 1, 3]),
        value(12, "y", &[]),
    ];
    let made = outputs(&graph, &[1, 1, 1, 3], Array::F32(vec![1.0, -1.0, 2.0]));
    assert_near(&made[0], &[3.5, -1.0, 4.0]);
}

/// The sum itself is the fourth result, which the next layer adds to.
#[test]
fn skipped_layers_are_summed_and_normalized() {
    let sums = |op: &str, operands: &[&str]| {
        let graph = [
            node_in(MS, op, operands, &["y", "", "", "sum"], &[float("epsilon", 0.0)]),
            singles("s", &[2, 2], |k| k as f32),
            singles("scale", &[2], |_| 2.0),
            singles("shift", &[2], |k| k as f32),
            scalar("bias", 1.0),
            value(11, "x", &[2, 2]),
            value(12, "y", &[]),
            value(12, "sum", &[]),
        ];
        outputs(&graph, &[2, 2], Array::F32(vec![1.0, -1.0, 0.5, 2.0]))
    };
    let made = sums("SkipLayerNormalization", &["x", "s", "scale", "shift", "bias"]);
    assert_near(&made[1], &[2.0, 1.0, 3.5, 6.0]);
    assert_near(&made[0], &[2.0, -1.0, -2.0, 3.0]);
    let made = sums("SkipSimplifiedLayerNormalization", &["x", "s", "scale"]);
    assert_near(&made[1], &[1.0, 0.0, 2.5, 5.0]);
    assert_near(&made[0], &[2.828427, 0.0, 1.264911, 2.529822]);
}

/// ONNX Runtime had these in ONNX's own domain first.
#[test]
fn rows_are_normalized_in_either_domain() {
    let exact = [float("epsilon", 0.0)];
    let scale = [singles("scale", &[2], |k| k as f32 + 1.0)];
    let made = |op: &str| result(op, &["x", "scale"], &exact, &scale);
    assert_near(&made("SimplifiedLayerNormalization"), &[1.0, -2.0, 0.342997, 2.743977]);
    assert_near(&made("LayerNormalization"), &[1.0, -2.0, -1.0, 2.0]);
}

#[test]
fn embeddings_are_looked_up_and_normalized() {
    let numbers = |list: &[i32]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let graph = [
        node_in(
            MS,
            "EmbedLayerNormalization",
            &["x", "segments", "words", "places", "kinds", "scale", "shift", "mask"],
            &["y", "lengths"],
            &[float("epsilon", 0.0)],
        ),
        stored("segments", I32, &[1, 2], &numbers(&[0, 1])),
        stored("mask", I32, &[1, 2], &numbers(&[1, 0])),
        singles("words", &[3, 2], |k| k as f32),
        singles("places", &[2, 2], |k| (k * k) as f32),
        singles("kinds", &[2, 2], |_| 1.0),
        singles("scale", &[2], |_| 1.0),
        singles("shift", &[2], |_| 0.5),
        open(11, "x", I32, &["1", "2"]),
        open(12, "y", FLOAT, &[]),
        open(12, "lengths", I32, &[]),
    ];
    let made = outputs(&graph, &[1, 2], Array::I32(vec![2, 0]));
    assert_near(&made[0], &[-0.5, 1.5, -0.5, 1.5]);
    assert_eq!(made[1], Array::I32(vec![1]));
}

#[test]
fn mask_of_embeddings_has_a_number_for_each_word() {
    let inputs = ["x", "", "words", "places", "", "scale", "shift", "mask"];
    let parts = [
        node_in(MS, "EmbedLayerNormalization", &inputs, &["y", "lengths"], &[]),
        stored("mask", I32, &[2], &[1, 0, 0, 0, 1, 0, 0, 0]),
        singles("words", &[2, 1], |k| k as f32),
        singles("places", &[2, 1], |_| 0.0),
        singles("scale", &[1], |_| 1.0),
        singles("shift", &[1], |_| 0.0),
        open(11, "x", I32, &["1", "2"]),
        open(12, "y", FLOAT, &[]),
        open(12, "lengths", I32, &[]),
    ];
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.ends_with("a mask int32[2] of 1 rows of 2 words"), "{said}");
}

/// As in ONNX Runtime.
#[test]
fn segments_of_embeddings_are_the_first_if_left_out() {
    let sums = |segments: &str, table: &str| {
        let inputs = ["x", segments, "words", "places", table, "scale", "shift"];
        let graph = [
            node_in(MS, "EmbedLayerNormalization", &inputs, &["y", "", "sum"], &[]),
            stored("segments", I32, &[1, 2], &[1, 0, 0, 0, 0, 0, 0, 0]),
            singles("words", &[2, 1], |k| k as f32),
            singles("places", &[2, 1], |_| 0.0),
            singles("kinds", &[2, 1], |k| k as f32 + 7.0),
            singles("scale", &[1], |_| 1.0),
            singles("shift", &[1], |_| 0.0),
            open(11, "x", I32, &["1", "2"]),
            open(12, "y", FLOAT, &[]),
            open(12, "sum", FLOAT, &[]),
        ];
        let made = network(&graph, &[])?.execute(&[Array::I32(vec![0, 1])]);
        made.map(|made| doubles(&made[1])).map_err(|error| error.to_string())
    };
    assert_eq!(sums("segments", "kinds"), Ok(vec![8.0, 8.0]));
    assert_eq!(sums("", "kinds"), Ok(vec![7.0, 8.0]));
    assert_eq!(sums("", ""), Ok(vec![0.0, 1.0]));
    assert!(sums("segments", "").unwrap_err().ends_with("segment_embedding is missing"));
}

/// Four bits each, the lower half of a byte first; without a zero point it is 8.
#[test]
fn weights_of_four_bits_are_unpacked_by_blocks() {
    let mut packed = [0x88; 16]; // a column of 16 numbers in two blocks, twice
    (packed[0], packed[1], packed[4], packed[8]) = (0x9a, 0x78, 0xf8, 0x08);
    let product = |zeros: &[&str]| {
        let inputs = [&["x", "w", "s"][..], zeros].concat();
        let graph = [
            node_in(
                MS,
                "MatMulNBits",
                &inputs,
                &["y"],
                &[int("K", 16), int("N", 2), int("bits", 4), int("block_size", 8)],
            ),
            stored("w", U8, &[2, 2, 4], &packed),
            singles("s", &[4], |k| [1.0, 10.0, 100.0, 1000.0][k as usize]),
            stored("z", U8, &[2], &[0x78, 0x88]),
            value(11, "x", &[1, 16]),
            value(12, "y", &[]),
        ];
        let x = (0..16).map(|k| if k < 4 { (k + 1) as f32 } else { f32::from(u8::from(k == 9)) });
        outputs(&graph, &[1, 16], Array::F32(x.collect())).remove(0)
    };
    // 2·1 + 1·2 + 0·3 - 1·4 + 10·7, and -8·100·2
    assert_near(&product(&[]), &[70.0, -1600.0]);
    assert_near(&product(&["z"]), &[80.0, -1600.0]);
    let said = network(
        &[
            node_in(
                MS,
                "MatMulNBits",
                &["x", "w", "s"],
                &["y"],
                &[int("K", 16), int("N", 2), int("block_size", 3)],
            ),
            stored("w", U8, &[1], &[0]),
            singles("s", &[4], |_| 1.0),
            value(11, "x", &[1, 16]),
            value(12, "y", &[]),
        ],
        &[],
    );
    assert!(said.unwrap_err().ends_with("blocks of 3 numbers of 4 bits"));
    for huge in [i64::MAX, 1 << 62] {
        let sizes = [int("K", huge), int("N", huge), int("block_size", huge)];
        let graph = [
            node_in(MS, "MatMulNBits", &["x", "w", "s"], &["y"], &sizes),
            stored("w", U8, &[1], &[0]),
            singles("s", &[4], |_| 1.0),
            value(11, "x", &[1, 16]),
            value(12, "y", &[]),
        ];
        network(&graph, &[]).unwrap_err();
    }
}

/// As the test above of its tables, which are `(number - zero) · scale` here.
#[test]
fn quantized_embeddings_are_looked_up_and_normalized() {
    let numbers = |list: &[i32]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let inputs = [
        "x", "segments", "words", "places", "kinds", "scale", "shift", "mask", "one", "half",
        "one", "half", "half", "ten", "none", "none", "none", "none",
    ];
    let graph = [
        node_in(
            MS,
            "QEmbedLayerNormalization",
            &inputs,
            &["y", "lengths"],
            &[float("epsilon", 0.0)],
        ),
        stored("segments", I32, &[1, 2], &numbers(&[0, 1])),
        stored("mask", I32, &[1, 2], &numbers(&[1, 0])),
        stored("words", U8, &[3, 2], &[10, 11, 12, 13, 14, 15]),
        stored("places", U8, &[2, 2], &[0, 2, 8, 18]),
        stored("kinds", U8, &[2, 2], &[1; 4]),
        stored("scale", U8, &[2], &[2; 2]),
        stored("shift", U8, &[2], &[1; 2]),
        scalar("one", 1.0),
        scalar("half", 0.5),
        stored("ten", U8, &[], &[10]),
        stored("none", U8, &[], &[0]),
        open(11, "x", I32, &["1", "2"]),
        open(12, "y", FLOAT, &[]),
        open(12, "lengths", I32, &[]),
    ];
    let made = outputs(&graph, &[1, 2], Array::I32(vec![2, 0]));
    assert_near(&made[0], &[-0.5, 1.5, -0.5, 1.5]);
    assert_eq!(made[1], Array::I32(vec![1]));
}

/// Groups say of which block the scale and the zero point of a number are.
#[test]
fn weights_of_two_and_eight_bits_have_groups_and_zero_points() {
    let product = |[bits, block]: [i64; 2], packed: &[u8], more: &[&str]| {
        let inputs = [&["x", "w", "s"][..], more].concat();
        let attributes = [int("K", 4), int("N", 1), int("bits", bits), int("block_size", block)];
        let groups: Vec<u8> = [1i32, 0, 1, 0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let graph = [
            node_in(MS, "MatMulNBits", &inputs, &["y"], &attributes),
            stored("w", U8, &[packed.len() as i64], packed),
            singles("s", &[4 / block], |k| if k == 0 { 1.0 } else { 10.0 }),
            stored("z", U8, &[2], &[127, 130]),
            singles("zf", &[2], |k| if k == 0 { 127.0 } else { 130.0 }),
            stored("z2", U8, &[1], &[1]),
            stored("g", I32, &[4], &groups),
            value(11, "x", &[1, 4]),
            value(12, "y", &[]),
        ];
        let read = network(&graph, &[])?;
        let x = Array::F32(vec![1.0, 2.0, 3.0, 4.0]);
        Ok::<_, String>(read.execute(&[x]).unwrap().remove(0))
    };
    // Less 128: 2, 1, -2 and 0.
    let bytes = [130, 129, 126, 128];
    let eight = |more: &[&str]| product([8, 2], &bytes, more).unwrap();
    assert_near(&eight(&[]), &[2.0 + 2.0 - 60.0]);
    assert_near(&eight(&["", "g"]), &[20.0 + 2.0 - 60.0]);
    assert_near(&eight(&["z", "g"]), &[4.0 - 120.0 + 4.0]);
    assert_near(&eight(&["zf", "g"]), &[4.0 - 120.0 + 4.0]);
    // 3, 2, 1 and 0, less 2 or 1.
    assert_near(&product([2, 4], &[0b00_01_10_11], &[]).unwrap(), &[1.0 - 3.0 - 8.0]);
    assert_near(&product([2, 4], &[0b00_01_10_11], &["z2"]).unwrap(), &[2.0 + 2.0 - 4.0]);
    let said = product([2, 4], &[0], &["", "g"]).unwrap_err();
    assert!(said.ends_with("operand 4 must have 4 numbers below 1, got [1, 0, 1, 0]"), "{said}");
}

/// Optimizers write the numbers of an activation as attributes of their own.
#[test]
fn activations_behind_a_product_have_their_numbers() {
    let weights = [singles("w", &[2, 2], |k| f32::from(u8::from(k % 3 == 0)))];
    let made = |name: &str, more: &[Vec<u8>]| {
        let attributes = [&[text("activation", name)][..], more].concat();
        result("FusedGemm", &["x", "w"], &attributes, &weights)
    };
    // Of 1, -1, 0.5 and 2.
    let low = float("activation_alpha", 0.5);
    assert_near(&made("Elu", std::slice::from_ref(&low)), &[1.0, -0.316_060, 0.5, 2.0]);
    assert_near(&made("ThresholdedRelu", std::slice::from_ref(&low)), &[1.0, 0.0, 0.0, 2.0]);
    assert_near(&made("Softplus", &[]), &[1.313_262, 0.313_262, 0.974_077, 2.126_928]);
    let both = [low, float("activation_beta", 0.25)];
    assert_near(&made("HardSigmoid", &both), &[0.75, 0.0, 0.5, 1.0]);
    assert_near(&made("Selu", &[]), &[1.050_701, -1.111_331, 0.525_350, 2.101_402]);
}

/// Rows come first, then two batches: as attention of heads is when its transposes are gone.
#[test]
fn rows_of_batches_may_come_first() {
    let graph = |attributes: &[Vec<u8>]| {
        [
            node_in(MS, "FusedMatMul", &["x", "w"], &["y"], attributes),
            singles("w", &[2, 2, 1], |k| [1.0, 10.0, 100.0, 1000.0][k as usize]),
            value(11, "x", &[2, 2, 2]),
            value(12, "y", &[]),
        ]
    };
    let x = || Array::F32((1..9).map(|k| k as f32).collect());
    let plain = outputs(&graph(&[]), &[2, 2, 2], x());
    assert_near(&plain[0], &[21.0, 43.0, 6500.0, 8700.0]);
    // Batches 1 2, 5 6 and 3 4, 7 8.
    let turned = outputs(&graph(&[int("transBatchA", 1)]), &[2, 2, 2], x());
    assert_near(&turned[0], &[21.0, 65.0, 4300.0, 8700.0]);
    // And 1 5, 2 6 and 3 7, 4 8.
    let both = [int("transBatchA", 1), int("transA", 1)];
    assert_near(&outputs(&graph(&both), &[2, 2, 2], x())[0], &[51.0, 62.0, 7300.0, 8400.0]);
}

#[test]
fn distances_are_those_of_rows() {
    let weights = [singles("w", &[3, 2], |k| (k % 2) as f32)];
    // Of 1 -1 and 0.5 2 from 0 1.
    let squares = [5.0, 5.0, 5.0, 1.25, 1.25, 1.25];
    assert_near(&result("CDist", &["x", "w"], &[], &weights), &squares);
    let made = result("CDist", &["x", "w"], &[text("metric", "euclidean")], &weights);
    assert_near(&made, &squares.map(f64::sqrt));
}

/// Older exporters of PyTorch call them by this domain.
#[test]
fn operators_of_both_domains_mean_the_same() {
    let made = result("Trilu", &["x"], &[int("upper", 0)], &[]);
    assert_near(&made, &[1.0, 0.0, 0.5, 2.0]);
    // Here alone a range may say nothing about its step, which is 1.
    let counted = [
        node_in(MS, "Range", &["start", "limit"], &["r"], &[]),
        node("Add", &["x", "r"], "y", &[]),
        scalar("start", 1.0),
        scalar("limit", 3.0),
        value(11, "x", &[2]),
        value(12, "y", &[2]),
    ];
    assert_near(&outputs(&counted, &[2], Array::F32(vec![0.5; 2]))[0], &[1.5, 2.5]);
}

/// Two weights of each column are in one byte, the first in its higher bits.
#[test]
fn weights_of_bitsandbytes_are_read_by_their_tables() {
    let made = |kind: i64, packed: [u8; 2], more: &[Vec<u8>]| {
        let sizes = [int("K", 2), int("N", 2), int("block_size", 2), int("quant_type", kind)];
        let parts = [
            node_in(MS, "MatMulBnb4", &["x", "w", "s"], &["y"], &[&sizes[..], more].concat()),
            stored("w", 2, &[2], &packed),
            singles("s", &[2], |k| [2.0, 4.0][k as usize]),
            value(11, "x", &[1, 2]),
            value(12, "y", &[1, 2]),
        ];
        let made = network(&parts, &[])?.execute(&[Array::F32(vec![1.0, 2.0])]);
        Ok::<_, String>(made.unwrap().remove(0))
    };
    assert_near(&made(0, [0x35, 0xb7], &[]).unwrap(), &[4.0, -2.0]);
    assert_near(&made(1, [0xf7, 0x0f], &[]).unwrap(), &[2.0, 4.0]);
    let said = made(2, [0, 0], &[]).unwrap_err();
    assert!(said.ends_with("attribute quant_type = 2"), "{said}");
    assert!(made(1, [0, 0], &[int("transB", 0)]).unwrap_err().contains("transB must be 1"));
}

#[test]
fn files_for_one_machine_are_refused_with_the_remedy() {
    let parts = [
        node_in("com.microsoft.nchwc", "ReorderInput", &["x"], &["y"], &[]),
        value(11, "x", &[1, 8, 2, 2]),
        value(12, "y", &[1, 8, 2, 2]),
    ];
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.contains("save it with the level extended, or run the file by"), "{said}");
}

/// Each refusal has the node, the operator, and what to do with the file.
#[test]
fn operators_that_are_not_read_are_refused_with_a_remedy() {
    let engine = "run the file by another engine, under `reef exec`";
    let cache = "export the file with a past and a present, or run the file by another engine";
    let padding = "save the file before it is optimized so, or run the file by another engine";
    for (domain, op, remedy) in [
        ("", "MaxRoiPool", engine),
        ("", "BitCast", engine),
        (MS, "SparseAttention", engine),
        (MS, "PackedAttention", padding),
        (MS, "PackedMultiHeadAttention", padding),
        (MS, "DecoderMaskedMultiHeadAttention", cache),
        (MS, "DecoderMaskedSelfAttention", cache),
        ("", "ImageDecoder", "begin the file with their pixels, or run the file by another engine"),
    ] {
        let parts = [
            node_in(domain, op, &["x"], &["y"], &[]),
            value(11, "x", &[2, 2]),
            value(12, "y", &[2, 2]),
        ];
        let said = network(&parts, &[]).unwrap_err();
        assert!(said.contains(&format!("node \"y\" ({op}): ")), "{said}");
        assert!(said.ends_with(remedy), "{said}");
    }
}

/// Sums of what optimised networks of images join: numbers by the definitions of ONNX Runtime.
#[test]
fn sums_before_functions_are_those_of_their_definitions() {
    let bias = [singles("b", &[2], |k| k as f32)];
    let softmax = result("BiasSoftmax", &["x", "b"], &[int("axis", -1)], &bias);
    let (low, high) = (1.0 / (1.0 + 1f64.exp()), 1.0 / (1.0 + 2.5f64.exp()));
    assert_near(&softmax, &[1.0 - low, low, high, 1.0 - high]);
    // 1 · gelu(0), 0.5 · gelu(3).
    let split = result("BiasSplitGelu", &["x", "b"], &[], &bias);
    assert_near(&split, &[0.0, 0.5 * 2.995_950_3]);
    let sum = result("BiasAdd", &["x", "b", "x"], &[], &bias);
    assert_near(&sum, &[2.0, -1.0, 1.0, 5.0]);
    let axis = [stored("axis", I32, &[1], &(-2i32).to_le_bytes())];
    assert_near(&result("ExpandDims", &["x", "axis"], &[], &axis), &[1.0, -1.0, 0.5, 2.0]);
}

/// Two groups of two channels, of two pixels each: those of the first are 1 to 4.
#[test]
fn groups_of_channels_that_come_last_are_normalised() {
    let made = |op: &str, inputs: &[&str], more: &[Vec<u8>]| {
        let parts = [
            node_in(MS, op, inputs, &["y"], &[&[int("groups", 2)], more].concat()),
            value(11, "x", &[1, 2, 1, 4]),
            singles("scale", &[4], |_| 2.0),
            singles("shift", &[4], |_| 1.0),
            singles("skip", &[1, 4], |k| [0.0, 0.0, 5.0, 5.0][k as usize]),
            singles("bias", &[4], |k| [0.0, 0.0, 0.0, 1.0][k as usize]),
            value(12, "y", &[]),
        ];
        let x = vec![1.0, 2.0, -5.0, -6.0, 3.0, 4.0, -5.0, -6.0];
        outputs(&parts, &[1, 2, 1, 4], Array::F32(x)).remove(0)
    };
    let root = 1.25f64.sqrt();
    let of = |x: f64| 2.0 * (x - 2.5) / root + 1.0;
    let pair = [3.0, -1.0]; // -5 and -6
    let want = [of(1.0), of(2.0), pair[0], pair[1], of(3.0), of(4.0), pair[0], pair[1]];
    let plain = ["x", "scale", "shift"];
    assert_near(&made("GroupNorm", &plain, &[int("activation", 0)]), &want);
    let gated = want.map(|x| x / (1.0 + (-x).exp()));
    assert_near(&made("GroupNorm", &plain, &[int("activation", 1)]), &gated);
    // Both channels of the second group become 0.
    let want = [of(1.0), of(2.0), 1.0, 1.0, of(3.0), of(4.0), 1.0, 1.0];
    let all = ["x", "scale", "shift", "skip", "bias"];
    assert_near(&made("SkipGroupNorm", &all, &[int("activation", 0)]), &want);
}

/// Two heads of one column each: the same numbers as of three operands.
#[test]
fn packed_operands_are_those_of_three() {
    let attention = |inputs: &[&str]| {
        let parts = [
            node_in(MS, "MultiHeadAttention", inputs, &["y"], &[int("num_heads", 2)]),
            value(11, "x", &[1, 2, 2]),
            singles("keys", &[1, 2, 2], |k| k as f32),
            singles("values", &[1, 2, 2], |k| 10.0 - k as f32),
            // Tokens, heads, keys and values.
            singles("both", &[1, 2, 2, 2, 1], |k| {
                let of_key = (k / 2) as f32;
                if k % 2 == 0 { of_key } else { 10.0 - of_key }
            }),
            value(12, "y", &[]),
        ];
        outputs(&parts, &[1, 2, 2], Array::F32(vec![1.0, -1.0, 0.5, 2.0])).remove(0)
    };
    let (apart, packed) = (attention(&["x", "keys", "values"]), attention(&["x", "both"]));
    assert_near(&packed, &doubles(&apart));
    let all = singles("all", &[1, 2, 2, 3, 1], |k| match k % 3 {
        0 => [1.0, -1.0, 0.5, 2.0][k as usize / 3],
        1 => (k / 3) as f32,
        _ => 10.0 - (k / 3) as f32,
    });
    let node = node_in(MS, "MultiHeadAttention", &["all"], &["y"], &[int("num_heads", 2)]);
    let network = network(&[node, all, value(12, "y", &[])], &[]).unwrap();
    assert_near(&network.execute(&[]).unwrap()[0], &doubles(&apart));
}

#[test]
fn packed_operands_of_other_heads_are_refused() {
    let parts = [
        node_in(MS, "MultiHeadAttention", &["x"], &["y"], &[int("num_heads", 1)]),
        value(11, "x", &[1, 2, 2, 3, 1]),
        value(12, "y", &[]),
    ];
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.ends_with("must be 3 parts of 1 heads, got float32[1, 2, 2, 3, 1]"), "{said}");
}

#[test]
fn bias_of_attention_that_is_no_list_is_refused() {
    for (bias, shown) in
        [(scalar("bias", 1.0), "[]"), (singles("bias", &[6, 1], |_| 1.0), "[6, 1]")]
    {
        let inputs = ["x", "x", "x", "bias"];
        let parts = [
            node_in(MS, "MultiHeadAttention", &inputs, &["y"], &[int("num_heads", 1)]),
            value(11, "x", &[1, 2, 2]),
            bias,
            value(12, "y", &[]),
        ];
        let said = network(&parts, &[]).unwrap_err();
        assert!(said.ends_with(&format!("a bias must be a list, got float32{shown}")), "{said}");
    }
}

#[test]
fn windows_of_an_axis_become_an_axis() {
    let made = |dims: [usize; 2], attributes: &[Vec<u8>]| {
        let sizes = dims.map(|size| size as i64);
        let parts = [
            node_in(MS, "UnfoldTensor", &["x"], &["y"], attributes),
            value(11, "x", &sizes),
            value(12, "y", &[]),
        ];
        let x = (1..=dims[0] * dims[1]).map(|k| k as f32).collect();
        outputs(&parts, &dims, Array::F32(x)).remove(0)
    };
    let made_of_row = made([1, 5], &[int("size", 3), int("step", 2)]);
    assert_near(&made_of_row, &[1.0, 2.0, 3.0, 3.0, 4.0, 5.0]);
    let of_columns = made([3, 2], &[int("dim", 0), int("size", 2)]);
    assert_near(&of_columns, &[1.0, 3.0, 2.0, 4.0, 3.0, 5.0, 4.0, 6.0]);
}

#[test]
fn different_elements_of_a_list_are_in_its_order() {
    let parts = [
        node_in(MS, "Unique", &["x"], &["y", "numbers", "counts"], &[]),
        value(11, "x", &[6]),
        open(12, "y", FLOAT, &["n"]),
        open(12, "numbers", 7, &["6"]),
        open(12, "counts", 7, &["n"]),
    ];
    let made = outputs(&parts, &[6], Array::F32(vec![2.0, 1.0, 1.0, 3.0, 4.0, 3.0]));
    assert_near(&made[0], &[2.0, 1.0, 3.0, 4.0]);
    assert_near(&made[1], &[0.0, 1.0, 1.0, 2.0, 3.0, 2.0]);
    assert_near(&made[2], &[1.0, 2.0, 2.0, 1.0]);
}

#[test]
fn dropout_of_a_sum_leaves_nothing_out_without_training() {
    let bias = || singles("b", &[2], |k| k as f32);
    let made = result("BiasDropout", &["x", "b", "x"], &[], &[bias()]);
    assert_near(&made, &[2.0, -1.0, 1.0, 5.0]);
    let parts = [
        node_in(MS, "BiasDropout", &["x", "b", "", "", "trains"], &["y"], &[]),
        bias(),
        stored("trains", 9, &[], &[1]),
        value(11, "x", &[2, 2]),
        value(12, "y", &[]),
    ];
    assert!(network(&parts, &[]).unwrap_err().contains("training is not supported"));
}

#[test]
fn norm_by_the_root_mean_square_also_gives_its_factor() {
    let parts = [
        node_in(MS, "SimplifiedLayerNormalization", &["x", "g"], &["y", "factor"], &[]),
        singles("g", &[2], |_| 1.0),
        value(11, "x", &[1, 2]),
        value(12, "y", &[1, 2]),
        value(12, "factor", &[1, 1]),
    ];
    let made = outputs(&parts, &[1, 2], Array::F32(vec![1.0, 7.0]));
    assert_near(&made[0], &[0.2, 1.4]);
    assert_near(&made[1], &[0.2]);
}

/// As ONNX Runtime's optimizer writes them.
#[test]
fn filters_have_their_channels_last_where_images_do() {
    let parts = [
        node_in(MS, "NhwcConv", &["x", "w"], &["y"], &[]),
        singles("w", &[1, 1, 1, 2], |k| k as f32 + 1.0),
        value(11, "x", &[1, 1, 1, 2]),
        value(12, "y", &[]),
    ];
    let made = outputs(&parts, &[1, 1, 1, 2], Array::F32(vec![3.0, 4.0])).remove(0);
    assert_near(&made, &[11.0]);
}

#[test]
fn convolution_of_channels_that_come_last_needs_no_activation() {
    let parts = [
        node_in(MS, "NhwcConv", &["x", "w"], &["y"], &[]),
        singles("w", &[2, 1, 1, 1], |k| k as f32 + 1.0),
        value(11, "x", &[1, 2, 1, 1]),
        value(12, "y", &[]),
    ];
    let made = outputs(&parts, &[1, 2, 1, 1], Array::F32(vec![1.0, 2.0])).remove(0);
    assert_near(&made, &[1.0, 2.0, 2.0, 4.0]);
}

/// Buckets are those of T5 in the transformers library. The first query sees all keys, the last one
/// those before it too. All numbers of a head stand together, whatever the table's sizes say.
#[test]
fn summands_of_scores_follow_from_how_far_keys_are() {
    let made = |sees_later: i64| {
        let attributes = [int("max_distance", 10), int("is_bidirectional", sees_later)];
        let parts = [
            node_in(MS, "RelativePositionBias", &["x", "count", "count"], &["y"], &attributes),
            stored("count", 7, &[], &12i64.to_le_bytes()),
            value(11, "x", &[8, 2]),
            value(12, "y", &[]),
        ];
        let buckets = Array::F32((0..16).map(|k| k as f32).collect());
        let made = doubles(&outputs(&parts, &[8, 2], buckets)[0]);
        assert!((0..144).all(|k| made[144 + k] == made[k] + 8.0), "{made:?}");
        [made[..12].to_vec(), made[132..144].to_vec()].concat()
    };
    let first = [0.0, 5.0, 6.0, 6.0, 6.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0];
    let last = [3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 1.0, 0.0];
    assert_eq!(made(1), [first, last].concat());
    let last = [7.0, 7.0, 7.0, 7.0, 6.0, 5.0, 4.0, 4.0, 3.0, 2.0, 1.0, 0.0];
    assert_eq!(made(0), [[0.0; 12], last].concat());
}

#[test]
fn experts_of_unknown_layouts_are_refused() {
    let said = |op: &str, attributes: &[Vec<u8>]| {
        let parts = [
            node_in(MS, op, &["x", "x", "w", "b", "w"], &["y"], attributes),
            singles("w", &[2, 2, 2], |_| 1.0),
            singles("b", &[2, 2], |_| 1.0),
            value(11, "x", &[2, 2]),
            value(12, "y", &[]),
        ];
        network(&parts, &[]).unwrap_err()
    };
    for (op, attribute, why) in [
        ("MoE", int("k", 3), "attribute k must be 1 to 2, got 3"),
        ("MoE", int("use_sparse_mixer", 1), "attribute use_sparse_mixer must be 0, got 1"),
        ("MoE", text("activation_type", "swiglu"), "swiglu_fusion = 0 with 2 layers of 2 columns"),
        ("QMoE", text("quant_type", "fp8"), "attribute quant_type must be int, got \"fp8\""),
        ("QMoE", int("weights_prepacked", 1), "attribute weights_prepacked must be 0, got 1"),
    ] {
        let said = said(op, &[attribute]);
        assert!(said.contains(&format!("node \"y\" ({op}): ")) && said.contains(why), "{said}");
    }
}

/// Two experts of one number each, whose first layers are `weights`.
fn two_experts(x: &[f32], weights: Vec<u8>) -> Vec<Vec<u8>> {
    let tokens = x.len() as i64;
    vec![
        node_in(
            MS,
            "MoE",
            &["x", "scores", "w", "", "v"],
            &["y"],
            &[text("activation_type", "identity")],
        ),
        value(11, "x", &[tokens, 1]),
        singles("scores", &[tokens, 2], |k| if k % 2 == 0 { 9.0 } else { 0.0 }),
        weights,
        singles("v", &[2, 1, 1], |_| 1.0),
        value(12, "y", &[tokens, 1]),
    ]
}

#[test]
fn expert_that_is_not_chosen_may_be_infinite() {
    let x = [1e20];
    let graph = two_experts(&x, singles("w", &[2, 1, 1], |k| if k == 0 { 1.0 } else { 1e30 }));
    let made = outputs(&graph, &[1, 1], Array::F32(x.to_vec())).remove(0);
    let share = 1.0 / (1.0 + (-9.0f64).exp());
    assert_near(&made, &[f64::from(x[0]) * share]);
}

#[test]
fn weights_of_experts_are_refused_unless_each_expert_has_some() {
    for (dims, want) in [
        (&[2, 1][..], "weights of experts must have 3 dimensions, got float32[2, 1]"),
        (&[1, 1, 1], "weights must be of 2 experts, got float32[1, 1, 1]"),
    ] {
        let graph = two_experts(&[1.0], singles("w", dims, |_| 1.0));
        let said = network(&graph, &[]).unwrap_err();
        assert!(said.ends_with(want), "{said}");
    }
}
