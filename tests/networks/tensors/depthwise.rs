//! Convolutions of each channel by itself: one, and in blocks as ConvNeXt has them.

use super::bench::Case;
use super::kinds::{case, pick};
use crate::handmade::{file, float, int, ints, node, scalar, singles, value};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use reef::models::kinds::TensorModel;
use reef::op::Operators;
use reef::tensor::{Depthwise, Element, Kind, Spec};

/// Channels of the blocks.
const CHANNELS: i64 = 32;

/// A convolution of each channel by itself, in any order of axes, with some zeros around it or
/// none, and a bias or none.
pub(super) fn depthwise(rng: &mut ChaCha8Rng) -> Case {
    let [images, channels] = [3, 70].map(|most| rng.random_range(1..=most));
    let window = pick(rng, &[(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)]);
    let (size, stride) = ([window.0; 2], [window.1; 2]);
    let [over, before]: [[usize; 2]; 2] =
        [13, 4].map(|most| [(); 2].map(|()| rng.random_range(1..=most)));
    let before = before.map(|before| before - 1);
    // Windows may reach over what is behind the last row as well.
    let height = |k: usize| ((over[k] - 1) * stride[k] + size[k]).saturating_sub(before[k] + k);
    let shape = [images, channels, height(0).max(1), height(1).max(1)];
    let last = [rng.random(), rng.random()];
    let single = |dims: &[usize]| Spec { element: Element::F32, dims: dims.to_vec() };
    let mut inputs = vec![single(&shape), single(&[channels, 1, size[0], size[1]])];
    if rng.random() {
        inputs.push(single(&[channels]));
    }
    let output = single(&[images, channels, over[0], over[1]]);
    let kind = Kind::Depthwise(Depthwise { shape, over, size, stride, before, last });
    case(rng, kind, inputs, output, 0.0)
}

/// Patches, two blocks of ConvNeXt, and the mean of all pixels.
pub(super) fn blocks() -> Vec<u8> {
    let made = |k: i64| (k * 7919 % 251 - 125) as f32 / 500.0;
    let mut constants = vec![
        singles("patches", &[CHANNELS, 3, 2, 2], made),
        singles("w", &[CHANNELS, 1, 7, 7], made),
        singles("b", &[CHANNELS], |k| made(k + 31)),
        singles("scale", &[CHANNELS, 1, 1], |k| made(k + 59)),
        singles("wide", &[CHANNELS, 2 * CHANNELS], |k| made(k + 17)),
        singles("offset", &[2 * CHANNELS], |k| made(k + 5)),
        singles("narrow", &[2 * CHANNELS, CHANNELS], |k| made(k + 3)),
    ];
    constants
        .extend([("root", 2f32.sqrt()), ("one", 1.0), ("half", 0.5)].map(|(n, x)| scalar(n, x)));
    let mut nodes = node("Conv", &["x", "patches", "b"], "s0", &[ints("strides", &[2, 2])]);
    nodes.extend((0..2).flat_map(block));
    nodes.extend(node("GlobalAveragePool", &["s2"], "y", &[]));
    let ends = [value(11, "x", &[2, 3, 22, 26]), value(12, "y", &[])];
    file(17, &[nodes, ends.concat(), constants.concat()])
}

/// An operator, what it reads, what it makes, and its attributes.
type Node<'a> = (&'a str, [&'a str; 3], &'a str, &'a [Vec<u8>]);

/// From `s0` to `s1`, or from `s1` to `s2`.
fn block(number: usize) -> Vec<u8> {
    let name = |name: &str| format!("{name}{number}");
    let (x, end) = (name("s"), format!("s{}", number + 1));
    let each = [int("group", CHANNELS), ints("pads", &[3, 3, 3, 3])];
    let normal = [float("epsilon", 1e-6), int("axis", -1)];
    let there = [ints("perm", &[0, 2, 3, 1])];
    let back = [ints("perm", &[0, 3, 1, 2])];
    let steps: [Node<'_>; 14] = [
        ("Conv", [&x, "w", "b"], "c", &each),
        ("Transpose", ["c", "", ""], "t", &there),
        ("LayerNormalization", ["t", "b", "b"], "n", &normal),
        ("MatMul", ["n", "wide", ""], "p", &[]),
        ("Add", ["p", "offset", ""], "h", &[]),
        ("Div", ["h", "root", ""], "q", &[]),
        ("Erf", ["q", "", ""], "e", &[]),
        ("Add", ["e", "one", ""], "f", &[]),
        ("Mul", ["h", "f", ""], "g", &[]),
        ("Mul", ["g", "half", ""], "a", &[]),
        ("MatMul", ["a", "narrow", ""], "m", &[]),
        ("Add", ["m", "b", ""], "o", &[]),
        ("Transpose", ["o", "", ""], "u", &back),
        ("Mul", ["u", "scale", ""], "v", &[]),
    ];
    // The output of a step has the block's number after its name; constants are those of all
    // blocks.
    let is_made = |of: &str| steps.iter().any(|(_, _, made, _)| *made == of);
    let own = |of: &str| if is_made(of) { name(of) } else { of.to_owned() };
    let mut nodes = Vec::new();
    for (op, reads, made, attributes) in &steps {
        let reads: Vec<String> =
            reads.iter().filter(|of| !of.is_empty()).map(|of| own(of)).collect();
        let reads: Vec<&str> = reads.iter().map(String::as_str).collect();
        nodes.extend(node(op, &reads, &own(made), attributes));
    }
    nodes.extend(node("Add", &[&own("v"), &x], &end, &[]));
    nodes
}

/// On a device with such convolutions nothing is turned, padded or added by itself: a block has a
/// launch for the convolution, and where sums have formulas behind them, one for the normalisation
/// and one for each product.
pub(super) fn blocks_are_short<D: Operators>(device: &D, model: &TensorModel) {
    let steps = model.steps_on(device);
    let names: Vec<_> = steps.iter().map(|step| step.op.name()).collect();
    if !names.contains(&"depthwise") {
        return reef_conformance::skip(&format!("{} has no such convolutions", D::NAME));
    }
    assert!(!names.contains(&"move"), "{names:?}");
    if names.contains(&"finished") {
        let block = ["depthwise", "row_map", "finished", "finished"];
        assert_eq!(names[..9], [&["finished"][..], &block, &block].concat(), "{names:?}");
    }
}
