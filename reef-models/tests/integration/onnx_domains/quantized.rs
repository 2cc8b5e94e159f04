//! Numbers of few bits.

use super::{assert_near, doubles, network, outputs};
use crate::handmade::{float, int, ints, node, node_in, node_of, open, scalar, stored};
use reef_op::tensor::{Array, Element, Half};

const MS: &str = "com.microsoft";
const FLOAT: i64 = 1;
const U8: i64 = 2;
const I8: i64 = 3;
const I32: i64 = 6;
const INT4: i64 = 22;

fn single(list: &[f32]) -> Vec<u8> {
    list.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn signed(list: &[i8]) -> Vec<u8> {
    list.iter().map(|&x| x as u8).collect()
}

/// A network between `x` and `y`.
fn between(nodes: &[Vec<u8>], element: i64, dims: &[&str]) -> Vec<Vec<u8>> {
    let ends = [open(11, "x", element, dims), open(12, "y", FLOAT, &[])];
    [nodes, &ends].concat()
}

/// Halves go to the even neighbour, and what is too large to the bound.
#[test]
fn floats_are_rounded_to_even_and_saturate() {
    let x = vec![0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 1e9, -128.5, -1e9];
    let quantize = |zero: Vec<u8>| {
        let nodes = [node("QuantizeLinear", &["x", "s", "z"], "y", &[]), scalar("s", 1.0), zero];
        outputs(&between(&nodes, FLOAT, &["10"]), &[10], Array::F32(x.clone())).remove(0)
    };
    let made = quantize(stored("z", I8, &[], &[0]));
    assert_eq!(made, Array::I8(vec![0, 2, 2, 0, -2, 126, 127, 127, -128, -128]));
    let made = quantize(stored("z", U8, &[], &[3]));
    assert_eq!(made, Array::U8(vec![3, 5, 5, 3, 1, 129, 131, 255, 0, 0]));
    // Four bits are stored in eight, but keep their bounds.
    let made = quantize(stored("z", INT4, &[], &[1]));
    assert_eq!(made, Array::I8(vec![1, 3, 3, 1, -1, 7, 7, 7, -8, -8]));
}

/// A mask of -∞ has an infinite scale, so that its quotients are NaN.
#[test]
fn nan_becomes_the_lowest_number() {
    for (zero, want) in [
        (stored("z", I8, &[], &[3]), Array::I8(vec![-128, 3])),
        (stored("z", U8, &[], &[3]), Array::U8(vec![0, 3])),
        (stored("z", INT4, &[], &[3]), Array::I8(vec![-8, 3])),
    ] {
        let scale = scalar("s", f32::INFINITY);
        let nodes = [node("QuantizeLinear", &["x", "s", "z"], "y", &[]), scale, zero];
        let x = Array::F32(vec![f32::NEG_INFINITY, 5.0]);
        assert_eq!(outputs(&between(&nodes, FLOAT, &["2"]), &[2], x).remove(0), want);
    }
}

#[test]
fn factor_of_a_quantized_product_is_one_of_its_scale() {
    let operands = ["x", "one", "z", "w", "one", "zw", "c", "one", "z"];
    let nodes = [
        node_in(MS, "QGemm", &operands, &["y"], &[float("alpha", 0.5)]),
        scalar("one", 1.0),
        stored("z", U8, &[], &[0]),
        stored("zw", I8, &[], &[0]),
        stored("w", I8, &[1, 1], &[3]),
        stored("c", I32, &[1], &10i32.to_le_bytes()),
    ];
    let graph = between(&nodes, U8, &["1", "1"]);
    let made = outputs(&graph, &[1, 1], Array::U8(vec![2])).remove(0);
    assert_eq!(made, Array::U8(vec![8]));
}

#[test]
fn numbers_without_a_zero_point_are_unsigned() {
    let nodes = [node("QuantizeLinear", &["x", "s"], "y", &[]), scalar("s", 0.5)];
    let made = outputs(&between(&nodes, FLOAT, &["2"]), &[2], Array::F32(vec![1.0, -1.0]));
    assert_eq!(made[0], Array::U8(vec![2, 0]));
}

#[test]
fn scales_along_an_axis_are_each_places_own() {
    let round_trip = |attributes: &[Vec<u8>]| {
        [
            node("QuantizeLinear", &["x", "s", "z"], "q", attributes),
            node("DequantizeLinear", &["q", "s", "z"], "y", attributes),
            stored("s", FLOAT, &[2], &single(&[1.0, 10.0])),
            stored("z", I8, &[2], &signed(&[0, 100])),
        ]
    };
    let x = || Array::F32(vec![1.4, 14.0, 300.0, 300.0]);
    for (axis, want) in [
        (0, [1.0, 14.0, 270.0, 270.0]),
        (1, [1.0, 10.0, 127.0, 270.0]),
        (-1, [1.0, 10.0, 127.0, 270.0]),
    ] {
        let graph = between(&round_trip(&[int("axis", axis)]), FLOAT, &["2", "2"]);
        assert_near(&outputs(&graph, &[2, 2], x())[0], &want);
    }
    let graph = between(&round_trip(&[int("axis", 1)]), FLOAT, &["2", "3"]);
    let said = network(&graph, &[]).unwrap_err();
    assert!(said.ends_with("scales float32[2] along axis 1 of [2, 3]"), "{said}");
}

/// Weights of four bits with a scale for each block of two rows.
#[test]
fn weights_of_four_bits_are_read_by_blocks() {
    let packed = [0x21, 0x43, 0xf8, 0x07]; // 1 2 | 3 4 | -8 -1 | 7 0
    let nodes = [
        stored("w", INT4, &[4, 2], &packed),
        stored("s", FLOAT, &[2, 2], &single(&[1.0, 10.0, 0.5, 2.0])),
        node("DequantizeLinear", &["w", "s"], "d", &[int("axis", 0), int("block_size", 2)]),
        node("MatMul", &["x", "d"], "y", &[]),
    ];
    let graph = between(&nodes, FLOAT, &["4", "4"]);
    let identity = (0..16).map(|k| f32::from(u8::from(k % 5 == 0))).collect();
    let made = outputs(&graph, &[4, 4], Array::F32(identity));
    assert_eq!(doubles(&made[0]), [1.0, 20.0, 3.0, 40.0, -4.0, -2.0, 3.5, 0.0]);
}

#[test]
fn range_of_a_tensor_decides_about_its_scale() {
    let of = |x: Vec<f32>| {
        let graph = [
            node_of("DynamicQuantizeLinear", &["x"], &["q", "s", "z"], &[]),
            open(11, "x", FLOAT, &["n"]),
            open(12, "q", U8, &["n"]),
            open(12, "s", FLOAT, &[]),
            open(12, "z", U8, &[]),
        ];
        outputs(&graph, &[x.len()], Array::F32(x))
    };
    let made = of(vec![0.0, 2.0, -3.0, -2.5, 1.34, 0.5]);
    assert_eq!(made[0], Array::U8(vec![153, 255, 0, 26, 221, 179]));
    assert_near(&made[1], &[0.019_607_844]);
    assert_eq!(made[2], Array::U8(vec![153]));
    let made = of(vec![0.0, 0.0]);
    assert_eq!(made, [Array::U8(vec![0, 0]), Array::F32(vec![1.0]), Array::U8(vec![0])]);
}

/// Rows and columns with zero points of their own.
#[test]
fn products_of_integers_are_exact() {
    let nodes = [
        node("MatMulInteger", &["x", "w", "zx", "zw"], "y", &[]),
        stored("w", I8, &[2, 2], &signed(&[1, -2, 3, 127])),
        stored("zx", U8, &[2], &[1, 255]),
        stored("zw", I8, &[2], &signed(&[0, -1])),
    ];
    let graph = between(&nodes, U8, &["2", "2"]);
    let made = outputs(&graph, &[2, 2], Array::U8(vec![11, 255, 0, 254]));
    // 10·1 + 254·3, 10·-1 + 254·128; -255·1 - 1·3, -255·-1 - 1·128
    assert_eq!(made[0], Array::I32(vec![772, 32502, -258, 127]));
}

/// An image whose padding is the zero point and not 0.
#[test]
fn convolutions_of_integers_pad_with_the_zero_point() {
    let nodes = [
        node("ConvInteger", &["x", "w", "z"], "y", &[ints("pads", &[0, 1, 0, 1])]),
        stored("w", U8, &[1, 1, 1, 3], &[1, 2, 3]),
        stored("z", U8, &[], &[10]),
    ];
    let graph = between(&nodes, U8, &["1", "1", "1", "3"]);
    let made = outputs(&graph, &[1, 1, 1, 3], Array::U8(vec![11, 10, 12]));
    assert_eq!(made[0], Array::I32(vec![2, 7, 4]));
}

#[test]
fn quantized_layers_round_once() {
    let scales = [
        scalar("sx", 0.5),
        stored("zx", U8, &[], &[128]),
        scalar("sy", 2.0),
        stored("zy", U8, &[], &[10]),
    ];
    let product = [
        node("QLinearMatMul", &["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"], "y", &[]),
        stored("w", I8, &[2, 2], &signed(&[1, 2, 3, -4])),
        stored("sw", FLOAT, &[2], &single(&[1.0, 3.0])),
        stored("zw", I8, &[2], &[0, 0]),
    ];
    let graph = between(&[&product[..], &scales].concat(), U8, &["2", "2"]);
    let made = outputs(&graph, &[2, 2], Array::U8(vec![130, 128, 128, 130]));
    // Sums 2 and 4, 6 and -8, times 1/4 and 3/4: 0.5 and 3, 1.5 and -6.
    assert_eq!(made[0], Array::U8(vec![10, 13, 12, 4]));
    let convolution = [
        node("QLinearConv", &["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"], "y", &[]),
        stored("w", I8, &[2, 1, 1, 1], &signed(&[1, -100])),
        stored("sw", FLOAT, &[2], &single(&[1.0, 3.0])),
        stored("zw", I8, &[2], &[0, 0]),
        stored("b", I32, &[2], &[4, 0, 0, 0, 0, 0, 0, 0]),
    ];
    let graph = between(&[&convolution[..], &scales].concat(), U8, &["1", "1", "1", "2"]);
    let made = outputs(&graph, &[1, 1, 1, 2], Array::U8(vec![130, 126]));
    // Sums 6 and 2, -200 and 200, times 1/4 and 3/4.
    assert_eq!(made[0], Array::U8(vec![12, 10, 0, 160]));
}

/// ONNX Runtime writes such nodes for networks without floats between the layers.
#[test]
fn sums_of_quantized_tensors_are_quantized_again() {
    let nodes = [
        node_in(MS, "QLinearAdd", &["x", "s", "z", "w", "s", "z", "sy", "z"], &["y"], &[]),
        stored("w", U8, &[2], &[10, 200]),
        scalar("s", 0.5),
        scalar("sy", 1.0),
        stored("z", U8, &[], &[100]),
    ];
    let made = outputs(&between(&nodes, U8, &["2"]), &[2], Array::U8(vec![255, 255]));
    // 77.5 - 45 = 32.5, and 77.5 + 50.
    assert_eq!(made[0], Array::U8(vec![132, 228]));
    assert_eq!(made[0].element(), Element::U8);
}

/// Types without a -0 have 0 for it, and for what rounds to it.
#[test]
fn sign_of_zero_is_kept_where_the_type_has_it() {
    let x = || Array::F32(vec![0.0, -0.0, -1e-9]);
    for (to, minus) in [(17, 0x8000), (18, 0), (19, 0x8000), (20, 0), (23, 0x8000)] {
        let want = Array::F16([0, minus, minus].map(Half).to_vec());
        let cast = between(&[node("Cast", &["x"], "y", &[int("to", to)])], FLOAT, &["3"]);
        assert_eq!(outputs(&cast, &[3], x())[0], want, "Cast to {to}");
        let zero = stored("z", to, &[], &[0]);
        let nodes = [node("QuantizeLinear", &["x", "s", "z"], "y", &[]), scalar("s", 1.0), zero];
        let made = outputs(&between(&nodes, FLOAT, &["3"]), &[3], x());
        assert_eq!(made[0], want, "QuantizeLinear to {to}");
    }
}

#[test]
fn number_of_four_bits_is_never_nan() {
    let cast = between(&[node("Cast", &["x"], "y", &[int("to", 23)])], FLOAT, &["3"]);
    let x = Array::F32(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
    assert_eq!(doubles(&outputs(&cast, &[3], x)[0]), [0.0, 6.0, -6.0]);
}

#[test]
fn condition_chooses_between_quantized_tensors() {
    let inputs = ["c", "x", "s", "z", "w", "s", "z", "sy", "z"];
    let nodes = [
        node_in(MS, "QLinearWhere", &inputs, &["y"], &[]),
        stored("c", 9, &[2], &[1, 0]),
        stored("w", U8, &[2], &[10, 200]),
        scalar("s", 0.5),
        scalar("sy", 1.0),
        stored("z", U8, &[], &[100]),
    ];
    let made = outputs(&between(&nodes, U8, &["2"]), &[2], Array::U8(vec![255, 0]));
    // 77.5 of the first, and 50 of the second.
    assert_eq!(made[0], Array::U8(vec![178, 150]));
}

/// ONNX Runtime's optimizer moves channels behind rows and columns. Filters stay.
#[test]
fn channels_of_quantized_tensors_may_come_last() {
    let of = |op: &str, inputs: &[&str], attributes: &[Vec<u8>]| {
        let nodes = [
            node_in(MS, op, inputs, &["y"], attributes),
            stored("w", I8, &[1, 2, 1, 1], &signed(&[1, 2])),
            scalar("s", 1.0),
            stored("z", U8, &[], &[0]),
            stored("zw", I8, &[], &[0]),
        ];
        let graph = between(&nodes, U8, &["1", "1", "2", "2"]);
        let read = network(&graph, &[]).unwrap();
        let made = read.execute(&[Array::U8(vec![1, 2, 3, 4])]).unwrap().remove(0);
        (read.outputs[0].spec.dims.clone(), made)
    };
    let last = int("channels_last", 1);
    let inputs = ["x", "s", "z", "w", "s", "zw", "s", "z"];
    let made = of("QLinearConv", &inputs, std::slice::from_ref(&last));
    assert_eq!(made, (vec![1, 1, 2, 1], Array::U8(vec![5, 11])));
    let kernel = ints("kernel_shape", &[1, 2]);
    let made = of("QLinearAveragePool", &["x", "s", "z", "s", "z"], &[last, kernel.clone()]);
    assert_eq!(made, (vec![1, 1, 1, 2], Array::U8(vec![2, 3])));
    let made = of("NhwcMaxPool", &["x"], &[kernel]);
    assert_eq!(made, (vec![1, 1, 1, 2], Array::U8(vec![3, 4])));
}

/// Inputs 2.55 and 1.003 have a step of 0.01, so that the second is 1. Gates of input, output and
/// forgetting are halves; the weights of the cell's gate are 1.
#[test]
fn inputs_of_a_quantized_lstm_are_rounded_by_their_range() {
    let inputs = ["x", "w", "w", "", "", "", "", "", "s", "z", "s", "z"];
    let graph = [
        node_in(MS, "DynamicQuantizeLSTM", &inputs, &["y", "h", "c"], &[int("hidden_size", 1)]),
        stored("w", I8, &[1, 1, 4], &signed(&[1, 1, 1, 3])),
        stored("s", FLOAT, &[1], &single(&[0.5])),
        stored("z", I8, &[1], &signed(&[1])),
        open(11, "x", FLOAT, &["2", "1", "1"]),
        open(12, "y", FLOAT, &[]),
        open(12, "h", FLOAT, &[]),
        open(12, "c", FLOAT, &[]),
    ];
    let made = outputs(&graph, &[2, 1, 1], Array::F32(vec![2.55, 1.003]));
    assert_near(&made[0], &[0.228669, 0.291853]);
    assert_near(&made[1], &[0.291853]);
    assert_near(&made[2], &[0.668067]);
}

#[test]
fn type_of_a_quantized_result_is_that_of_its_zero_point() {
    let read = |zero: i64, asked: i64| {
        let nodes = [
            node("QuantizeLinear", &["x", "s", "z"], "y", &[int("output_dtype", asked)]),
            scalar("s", 1.0),
            stored("z", zero, &[], &[0]),
        ];
        network(&between(&nodes, FLOAT, &["2"]), &[])
    };
    for (zero, asked) in [(I8, U8), (INT4, I8), (I8, INT4)] {
        let said = read(zero, asked).unwrap_err();
        assert!(said.contains(&format!("attribute output_dtype is {asked}, ")), "{said}");
    }
    for same in [I8, U8, INT4] {
        assert!(read(same, same).is_ok());
    }
}
