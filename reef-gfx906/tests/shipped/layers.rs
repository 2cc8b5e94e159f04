//! Kernels of kernels/network.cu whose threads add up together.

use crate::common::Mapped;
use crate::guard::Guard;
use crate::params::{Element, Struct, integers};
use crate::shipped;

const IMAGES: u32 = 2;
const THREADS: u32 = 256;

impl Element {
    fn suffix(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
        }
    }
}

/// Each output is 32 threads' sum, so a wave of 64 makes two.
#[test]
fn a_linear_layer_is_the_product_whatever_the_width_of_a_wave() {
    const INPUTS: usize = 140;
    const OUTPUTS: usize = 37;
    let input = integers(IMAGES as usize * INPUTS, 5);
    let weights = integers(OUTPUTS * INPUTS, 3);
    let bias = integers(OUTPUTS, 9);
    for (element, fours) in Element::BOTH.into_iter().flat_map(|e| [(e, 0), (e, 1)]) {
        let kernel = shipped("network", "guarded", &format!("linear_{}", element.suffix()));
        let packed = [&input, &weights].map(|values| element.pack(values));
        let mut output = element.pack(&[-1.0; IMAGES as usize * OUTPUTS]);
        let mut memory = Mapped::default();
        let params = Struct::default()
            .view(memory.map(&packed[0]), [1, 1, INPUTS as u32])
            .view(memory.map_mut(&mut output), [1, 1, OUTPUTS as u32])
            .wide(&[memory.map(&packed[1]), memory.map(&bias)])
            .words(&[IMAGES, INPUTS as u32, OUTPUTS as u32, 0, fours, 0])
            .finish();
        let blocks = (OUTPUTS as u32).div_ceil(THREADS / 32);
        Guard::new([blocks, 1, 1]).launch(&kernel, &mut memory, THREADS, None, &params);
        let got = element.unpack(&output);
        for (at, got) in got[..IMAGES as usize * OUTPUTS].iter().enumerate() {
            let (n, k) = (at / OUTPUTS, at % OUTPUTS);
            let row = weights[k * INPUTS..].iter().zip(&input[n * INPUTS..][..INPUTS]);
            let sum: f32 = row.map(|(weight, input)| weight * input).sum();
            assert_eq!(*got, sum + bias[k], "{element:?}, fours {fours}: {k} of image {n}");
        }
    }
}

#[test]
fn the_mean_of_a_picture_is_that_of_its_pixels() {
    const HEIGHT: u32 = 7;
    const WIDTH: u32 = 8;
    const CHANNELS: u32 = 40;
    let each = (HEIGHT * WIDTH * CHANNELS) as usize;
    let input = integers(IMAGES as usize * each, 5);
    // A scale that is a power of two keeps results exact.
    let scale = 1.0_f32 / 8.0;
    let kernel = shipped("network", "guarded", "pool_picture_f32");
    let mut output = vec![-1_f32; (IMAGES * CHANNELS) as usize];
    let mut memory = Mapped::default();
    let (fours, groups) = (CHANNELS / 4, (CHANNELS / 4).div_ceil(8));
    let params = Struct::default()
        .view(memory.map(&input), [HEIGHT, WIDTH, CHANNELS])
        .view(memory.map_mut(&mut output), [1, 1, CHANNELS])
        .wide(&[u64::from(IMAGES * fours)])
        .words(&[IMAGES * groups, fours, HEIGHT, WIDTH, 1, 1, 0, 0, 1, scale.to_bits()])
        .finish();
    Guard::new([IMAGES * groups, 1, 1]).launch(&kernel, &mut memory, THREADS, None, &params);
    for (at, got) in output.iter().enumerate() {
        let (n, c) = (at / CHANNELS as usize, at % CHANNELS as usize);
        let channel = input[n * each..][..each].iter().skip(c).step_by(CHANNELS as usize);
        assert_eq!(*got, channel.sum::<f32>() * scale, "channel {c} of image {n}");
    }
}
