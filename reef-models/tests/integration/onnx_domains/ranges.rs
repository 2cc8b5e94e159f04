//! Numbers in a file that are out of range: each is one error.

use super::{assert_near, network, numbers};
use crate::handmade::{int, ints, node, node_in, open, scalar, stored, text, typed, value};
use reef_op::tensor::Array;

const FLOAT: i64 = 1;
const I64: i64 = 7;

#[track_caller]
fn refused(parts: &[Vec<u8>], want: &str) {
    let said = network(&[parts, &[open(12, "y", FLOAT, &[])]].concat(), &[]).unwrap_err();
    assert!(said.contains(want), "{said}");
}

#[test]
fn padding_that_overflows_is_refused() {
    let image = |sizes: &[i64], pads: &[i64]| {
        let window = vec![1; sizes.len()];
        refused(
            &[
                value(11, "x", &[1, 1, 1]),
                numbers("sizes", sizes),
                numbers("window", &window),
                node("Col2Im", &["x", "sizes", "window"], "y", &[ints("pads", pads)]),
            ],
            "is out of range",
        );
    };
    image(&[4], &[i64::MAX, i64::MAX]);
    image(&[4, 4], &[1 << 40; 4]);
    let attributes = [ints("kernel_shape", &[2]), ints("pads", &[i64::MIN, 1])];
    let parts = [
        value(11, "x", &[1, 1, 1]),
        typed(11, "places", I64, &[1, 1, 1]),
        node("MaxUnpool", &["x", "places"], "y", &attributes),
    ];
    refused(&parts, "is out of range");
}

#[test]
fn groups_of_offsets_that_overflow_are_refused() {
    let parts = [
        value(11, "x", &[1, 0, 3, 3]),
        value(11, "filters", &[1, 0, 2, 1]),
        value(11, "offsets", &[1, 4, 2, 3]),
        node("DeformConv", &["x", "filters", "offsets"], "y", &[int("offset_group", i64::MAX)]),
    ];
    refused(&parts, "offsets float32[1, 4, 2, 3]");
}

#[test]
fn bands_from_high_to_low_are_refused() {
    let number = |name, value: i64| stored(name, I64, &[], &value.to_le_bytes());
    let parts = [
        number("bands", 2),
        number("len", 16),
        number("rate", 20_000),
        scalar("low", 100_000.0),
        scalar("high", 0.0),
        node("MelWeightMatrix", &["bands", "len", "rate", "low", "high"], "y", &[]),
    ];
    refused(&parts, "frequencies from 100000 to 0");
}

#[test]
fn places_far_off_are_those_of_the_border() {
    let attributes = |mode: &str| [text("mode", mode), text("padding_mode", "border")];
    for mode in ["linear", "nearest", "cubic"] {
        let parts = [
            value(11, "x", &[1, 1, 2, 2]),
            value(11, "grid", &[1, 1, 3, 2]),
            node("GridSample", &["x", "grid"], "y", &attributes(mode)),
            open(12, "y", FLOAT, &[]),
        ];
        let network = network(&parts, &[]).unwrap();
        let (x, far) = (vec![1.0, 2.0, 3.0, 4.0], f32::INFINITY);
        let grid = vec![far, far, -far, far, 1e30, -1e30];
        let made = network.execute(&[Array::F32(x), Array::F32(grid)]).unwrap();
        assert_near(&made[0], &[4.0, 3.0, 2.0]);
    }
}

#[test]
fn grid_of_no_batches_gives_nothing() {
    let parts = [
        value(11, "x", &[0, 1, 2, 2]),
        value(11, "grid", &[0, 3, 1, 2]),
        node("GridSample", &["x", "grid"], "y", &[]),
        open(12, "y", FLOAT, &[]),
    ];
    assert_eq!(network(&parts, &[]).unwrap().outputs[0].spec.dims, [0, 1, 3, 1]);
}

#[test]
fn zero_points_of_shorter_rows_are_refused() {
    let scales: Vec<u8> = [1.0f32; 8].iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let inputs = ["table", "rows", "scales", "zeros"];
    let parts = [
        stored("table", 2, &[2, 16], &[1; 32]),
        numbers("rows", &[0]),
        stored("scales", FLOAT, &[2, 4], &scales),
        stored("zeros", 2, &[2, 1], &[1; 2]),
        node_in("com.microsoft", "GatherBlockQuantized", &inputs, &["y"], &[int("block_size", 8)]),
    ];
    refused(&parts, "bytes uint8[2, 1] of rows of 4 numbers of 4 bits");
}

#[test]
fn windows_that_reach_too_far_are_refused() {
    let dilation = ints("dilations", &[1 << 24]);
    let window = ints("kernel_shape", &[1 << 40]);
    let same = [window, dilation.clone(), text("auto_pad", "SAME_UPPER")];
    let parts = [value(11, "x", &[1, 1, 1 << 25]), node("MaxPool", &["x"], "y", &same)];
    refused(&parts, "a window of [1099511627776] over 33554432 elements of axis 0");
    let parts = [
        value(11, "x", &[1, 1, 1 << 25]),
        value(11, "w", &[1, 1, 1 << 40]),
        node("ConvTranspose", &["x", "w"], "y", &[dilation]),
    ];
    refused(&parts, "a transposed convolution of float32[1, 1, 33554432]");
}

/// The only result of `x` as ONNX's type `to`.
fn cast(x: Array, from: i64, to: i64) -> Array {
    let parts = [
        typed(11, "x", from, &[x.len() as i64]),
        node("Cast", &["x"], "y", &[int("to", to)]),
        open(12, "y", to, &[]),
    ];
    network(&parts, &[]).unwrap().execute(&[x]).unwrap().remove(0)
}

/// The least number stands for those of 32 and 64 bits, and its lowest bits for narrower ones.
#[test]
fn floats_beyond_integers_are_cast_as_by_onnx_runtime() {
    let far = f32::INFINITY;
    let x = [-1.5, 3e9, -3e9, 300.0, f32::NAN, far, -far, 1e19, -1e19, 2e19];
    let made = |to| cast(Array::F32(x.to_vec()), FLOAT, to);
    let least = i32::MIN;
    let mut want = [least; 10];
    (want[0], want[3]) = (-1, 300);
    assert_eq!(made(6), Array::I32(want.to_vec()));
    let mut want = [i64::MIN; 10];
    want[..4].copy_from_slice(&[-1, 3_000_000_000, -3_000_000_000, 300]);
    assert_eq!(made(7), Array::I64(want.to_vec()));
    let narrow = |minus: u16, more: u16| [&[minus, 0, 0, more][..], &[0; 6]].concat();
    assert_eq!(made(4), Array::U16(narrow(u16::MAX, 300)));
    let bytes = narrow(255, 44).into_iter().map(|x| x as u8);
    assert_eq!(made(2), Array::U8(bytes.clone().collect()));
    assert_eq!(made(3), Array::I8(bytes.map(|x| x as i8).collect()));
    let mut want = [0; 10];
    want[..4].copy_from_slice(&[u32::MAX, 3_000_000_000, 1_294_967_296, 300]);
    assert_eq!(made(12), Array::U32(want.to_vec()));
    let half = 1 << 63;
    let minus = 3_000_000_000u64.wrapping_neg();
    let ends = [half, 0, half, 1e19f32 as u64, half, 0];
    let want = [&[u64::MAX, 3_000_000_000, minus, 300], &ends[..]].concat();
    assert_eq!(made(13), Array::U64(want));
    // Four bits are the lowest of the nearest integer, of which there is none for an infinity.
    let x = Array::F32(vec![far, f32::NAN, 17.0, 2.5]);
    assert_eq!(cast(x, FLOAT, 21), Array::U8(vec![0, 0, 1, 3]));
}

#[test]
fn doubles_next_to_a_bound_are_cast_as_by_onnx_runtime() {
    let x = vec![2_147_483_647.5, 2_147_483_648.0, -2_147_483_648.5, -2_147_483_647.5];
    let want = vec![i32::MAX, i32::MIN, i32::MIN, -i32::MAX];
    assert_eq!(cast(Array::F64(x), 11, 6), Array::I32(want));
}

#[test]
fn tensors_of_more_dimensions_are_refused_with_a_remedy() {
    let parts = [
        value(11, "x", &[1; 12]),
        numbers("sizes", &[1; 13]),
        node("Reshape", &["x", "sizes"], "y", &[]),
    ];
    let why = "must have at most 12 dimensions, got 13, or run the file by another engine";
    refused(&parts, why);
}
