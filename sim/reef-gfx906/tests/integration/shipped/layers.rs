//! The kernels of kernels/network.cu besides the tiles of convolutions.

use super::guard::Guard;
use super::params::{
    Element, IMAGES, KEPT, RELU, Shape, Struct, assert_same, integers, relu, with_nans,
};
use super::shipped;
use crate::common::Mapped;

const THREADS: u32 = 256;

/// Runs the kernel `name` with its parameters, which are made from the addresses of input and
/// output.
fn run(
    name: &str,
    element: Element,
    blocks: u32,
    input: &[f32],
    output: Shape,
    params: impl Fn(&mut Mapped, u64, u64) -> Struct,
) -> Vec<f32> {
    let suffix = if element == Element::F32 { "f32" } else { "f16" };
    let kernel = shipped("network", "guarded", &format!("{name}_{suffix}"));
    let input = element.pack(input);
    let mut results = element.pack(&vec![-99.0; output.len()]);
    let mut memory = Mapped::default();
    let [from, to] = [memory.map(&input), memory.map_mut(&mut results)];
    let params = params(&mut memory, from, to).finish();
    let mut guard = Guard::new([blocks, 1, 1]);
    guard.launch(&kernel, &mut memory, THREADS, None, &params);
    assert_eq!(guard.stopped, 0);
    element.unpack(&results)[..output.len()].to_vec()
}

/// Each output is 32 threads' sum, so a wave of 64 makes two.
#[test]
fn a_linear_layer_is_the_product_whatever_the_width_of_a_wave() {
    let (from, to) = (Shape([1, 1, 140]), Shape([1, 1, 37]));
    let input = integers(from.len(), 5);
    let weights = integers(37 * 140, 3);
    let bias = integers(37, 9);
    for (element, fours) in Element::BOTH.into_iter().flat_map(|e| [(e, 0), (e, 1)]) {
        let packed = element.pack(&weights);
        let got =
            run("linear", element, 37_u32.div_ceil(THREADS / 32), &input, to, |memory, i, o| {
                Struct::default()
                    .view(i, from)
                    .view(o, to)
                    .wide(&[memory.map(&packed), memory.map(&bias)])
                    .words(&[IMAGES, 140, 37])
                    .words(&KEPT)
                    .words(&[fours, 0])
            });
        for (got, [n, _, _, k]) in got.iter().zip(to.places()) {
            let (n, k) = (n as usize, k as usize);
            let row = weights[k * 140..].iter().zip(&input[n * 140..][..140]);
            let sum: f32 = row.map(|(weight, input)| weight * input).sum();
            assert_eq!(*got, sum + bias[k], "{element:?}, fours {fours}: {k} of image {n}");
        }
    }
}

#[test]
fn the_mean_of_a_image_is_that_of_its_pixels() {
    let (from, to) = (Shape([7, 8, 40]), Shape([1, 1, 40]));
    let input = integers(from.len(), 5);
    let scale = 0.125_f32; // keeps results exact
    // Blocks for 8 x 4 channels of an image, and for 4.
    let kernels = [("pool_picture", 2), ("pool_large_picture", 10)];
    for (element, (name, each)) in Element::BOTH.into_iter().flat_map(|e| kernels.map(|k| (e, k))) {
        let blocks = IMAGES * each;
        let got =
            run(name, element, blocks, &input, to, |_, i, o| {
                Struct::default()
                    .view(i, from)
                    .view(o, to)
                    .wide(&[u64::from(IMAGES) * 10])
                    .words(&[blocks, 10, 7, 8, 1, 1, 0, 0, 1, scale.to_bits()])
            });
        for (got, [n, _, _, c]) in got.iter().zip(to.places()) {
            let pixels = (0..56).map(|p| input[from.at([n, p / 8, p % 8, c]).expect("inside")]);
            let expected = pixels.sum::<f32>() * scale;
            assert_eq!(*got, expected, "{name}, {element:?}: {c} of image {n}");
        }
    }
}

/// 64,000 values, which 32 threads add up or one.
#[test]
fn the_mean_of_many_pixels_is_exact() {
    let (from, to) = (Shape([250, 256, 4]), Shape([1, 1, 4]));
    let input: Vec<f32> = integers(from.len(), 101).iter().map(|i| 1000.0 + i / 64.0).collect();
    let scale = 1.0 / (250.0 * 256.0_f32);
    let words = [IMAGES, 1, 250, 256, 1, 1, 0, 0, 1, scale.to_bits()];
    for (name, each) in
        [("pool_picture", 4), ("pool_large_picture", 4), ("pool_fours", 4), ("pool_any", 1)]
    {
        let got = run(name, Element::F32, IMAGES, &input, to, |_, i, o| {
            let count = u64::from(IMAGES) * 4 / each;
            let mut words = words;
            words[1] = 4 / each as u32;
            Struct::default().view(i, from).view(o, to).wide(&[count]).words(&words)
        });
        for (got, [n, _, _, c]) in got.iter().zip(to.places()) {
            let place = |p: i64| from.at([n, p / 256, p % 256, c]).expect("inside");
            let sum: f64 = (0..250 * 256).map(|p| f64::from(input[place(p)])).sum();
            let off = (f64::from(*got) * 250.0 * 256.0 / sum - 1.0).abs();
            assert!(off < 1e-6, "{name}: {c} of image {n} is off by {off:.1e}");
        }
    }
}

/// Bounds of ReLU6, of anything, and none; gates; all of what may be no number.
#[test]
fn activations_are_what_they_say() {
    let shape = Shape([5, 7, 12]);
    let input = with_nans(shape.len(), 31);
    let gate = |x: f32| (x * (1.0 / 6.0) + 0.5).clamp(0.0, 1.0);
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let inf = f32::INFINITY;
    let clamps = [(0.0, 6.0), (-1.5, 2.5), (-1e9, 1e9), (-inf, -3.0), (2.0, inf)];
    let clamps = clamps.map(|(low, high)| (0, low, high));
    let cases = clamps.into_iter().chain([1, 2, 3, 4].map(|work| (work, 0.0, 6.0)));
    let kernels = [("pointwise_any", 1), ("pointwise_fours", 4)];
    for ((work, low, high), (name, each)) in cases.flat_map(|case| kernels.map(|k| (case, k))) {
        let got = run(name, Element::F32, 2, &input, shape, |_, i, o| {
            Struct::default()
                .view(i, shape)
                .view(0, shape)
                .view(o, shape)
                .wide(&[shape.len() as u64 / each])
                .words(&[2, 12 / each as u32, 35, work, low.to_bits(), high.to_bits()])
                .divisor(12 / each as u32)
                .divisor(35)
        });
        for (got, &x) in got.iter().zip(&input) {
            let expected = match work {
                0 => x.clamp(low, high),
                1 => gate(x),
                2 => x * gate(x),
                3 => sigmoid(x),
                _ => x * sigmoid(x),
            };
            let off = (got - expected).abs();
            let same = (got.is_nan() && x.is_nan()) || off <= if work == 0 { 0.0 } else { 1e-5 };
            assert!(same, "{name}, {work}, {low} to {high}: {x} gives {got}, not {expected}");
        }
    }
}

/// Windows of 3 x 3, each second pixel, a border of one.
#[test]
fn pools_take_the_greatest_or_the_mean_of_windows() {
    pools_are_those_of(&integers(POOLED.len(), 9));
}

/// A NaN counts as greater than all numbers.
#[test]
fn window_with_a_nan_gives_nan() {
    pools_are_those_of(&with_nans(POOLED.len(), 9));
}

const POOLED: Shape = Shape([7, 9, 8]);

fn pools_are_those_of(input: &[f32]) {
    let (from, to) = (POOLED, Shape([4, 5, 8]));
    let kernels = [("pool_any", 1), ("pool_fours", 4)];
    let cases = kernels.into_iter().flat_map(|kernel| [(kernel, 0), (kernel, 1)]);
    for (element, ((name, each), average)) in
        cases.flat_map(|case| Element::BOTH.map(|element| (element, case)))
    {
        let (count, blocks) = (to.len() as u64 / each, 2);
        let got = run(name, element, blocks, input, to, |_, i, o| {
            Struct::default().view(i, from).view(o, to).wide(&[count]).words(&[
                blocks,
                8 / each as u32,
                3,
                3,
                2,
                2,
                1,
                1,
                average,
                0.125_f32.to_bits(),
            ])
        });
        for (got, [n, y, x, c]) in got.iter().zip(to.places()) {
            let window = (0..9).filter_map(|tap| {
                from.at([n, 2 * y + tap / 3 - 1, 2 * x + tap % 3 - 1, c]).map(|at| input[at])
            });
            let expected = match average {
                0 => window.fold(f32::MIN, |a, b| if b > a || b.is_nan() { b } else { a }),
                _ => window.sum::<f32>() * 0.125,
            };
            let at = [n, y, x, c];
            assert_same(*got, expected, &format!("{name}, {element:?}, average {average}: {at:?}"));
        }
    }
}

#[test]
fn maps_scale_each_channel_and_fill_up_with_zeros() {
    let shape = Shape([5, 7, 12]);
    let input = with_nans(shape.len(), 9);
    let [weights, bias] = [integers(12, 5), integers(12, 7)];
    for ((name, each), element) in
        [("map_any", 1), ("map_fours", 4)].into_iter().flat_map(|k| Element::BOTH.map(|e| (k, e)))
    {
        // The kernel that takes single numbers may be given fewer channels than it writes.
        let given = if each == 1 { 10 } else { 12 };
        let got = run(name, element, 2, &input, shape, |memory, i, o| {
            Struct::default()
                .view(i, shape)
                .view(o, shape)
                .wide(&[memory.map(&weights), memory.map(&bias), shape.len() as u64 / each])
                .words(&[2, 12 / each as u32, given, 1])
                .divisor(12 / each as u32)
                .words(&[0; 2])
        });
        for ((got, value), [_, _, _, c]) in got.iter().zip(&input).zip(shape.places()) {
            let value = if c < i64::from(given) { *value } else { 0.0 };
            let expected = relu(value * weights[c as usize] + bias[c as usize]);
            assert_same(*got, expected, &format!("{name}, {element:?}: channel {c}"));
        }
    }
}

/// Two groups, windows of 3 x 2, each second column.
#[test]
fn any_convolution_adds_up_its_group() {
    let (from, to) = (Shape([6, 7, 6]), Shape([6, 4, 10]));
    let [input, residual] = [integers(from.len(), 5), with_nans(to.len(), 11)];
    let [weights, bias] = [integers(10 * 3 * 3 * 2, 3), integers(10, 9)];
    for element in Element::BOTH {
        let added = element.pack(&residual);
        let got = run("conv_any", element, 2, &input, to, |memory, i, o| {
            let residual = memory.map(&added);
            Struct::default()
                .view(i, from)
                .view(o, to)
                .view(residual, to)
                .wide(&[memory.map(&weights), memory.map(&bias), to.len() as u64])
                .words(&[2, 5, 3, 2, 3, 2, 1, 2, 1, 1])
                .words(&RELU)
                .words(&[0])
        });
        for (at, [n, y, x, k]) in to.places().enumerate() {
            let mut sum = bias[k as usize] + residual[at];
            for tap in 0..3 * 3 * 2 {
                let (c, row, column) = (tap / 6, tap / 2 % 3, tap % 2);
                let pixel = [n, y + row - 1, 2 * x + column - 1, k / 5 * 3 + c];
                sum +=
                    from.at(pixel).map_or(0.0, |at| input[at]) * weights[(k * 18 + tap) as usize];
            }
            assert_same(got[at], relu(sum), &format!("{element:?}: {:?}", [n, y, x, k]));
        }
    }
}
