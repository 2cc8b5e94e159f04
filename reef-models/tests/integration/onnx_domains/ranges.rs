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
