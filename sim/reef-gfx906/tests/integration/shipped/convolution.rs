//! kernels/conv.h on tiles without tensor cores.

use super::guard::Guard;
use super::params::{Element, RELU, Struct, assert_same, integers, relu, with_nans};
use super::shipped;
use crate::common::Mapped;

/// Bytes of a row of a tile.
const SLAB: usize = 256;
const THREADS: u32 = 256;
const IMAGES: usize = 2;
const HEIGHT: usize = 7;
const WIDTH: usize = 9;
/// A multiple of what a chunk of 16 bytes holds of either element.
const CHANNELS: usize = 24;
const WINDOW: usize = 3;
const PIXELS: usize = IMAGES * HEIGHT * WIDTH;
const TAPS: usize = WINDOW * WINDOW;

/// A convolution of 3 x 3 with a border of zeros, its input, weights, and what is added to it.
struct Case {
    element: Element,
    tile: [usize; 2],
    outputs: usize,
    splits: usize,
    input: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
}

impl Case {
    fn new(element: Element, tile: [usize; 2], outputs: usize, splits: usize) -> Self {
        Self {
            element,
            tile,
            outputs,
            splits,
            input: integers(PIXELS * CHANNELS, 5),
            weights: integers(outputs * TAPS * CHANNELS, 3),
            bias: integers(outputs.next_multiple_of(4), 9),
            residual: with_nans(PIXELS * outputs, 11),
        }
    }

    fn slabs(&self) -> usize {
        (TAPS * CHANNELS * self.element.bytes()).div_ceil(SLAB)
    }

    fn tiles(&self) -> [usize; 2] {
        [PIXELS.div_ceil(self.tile[0]), self.outputs.div_ceil(self.tile[1])]
    }

    fn blocks(&self) -> u32 {
        (self.tiles()[0] * self.tiles()[1] * self.splits) as u32
    }

    /// Weights of each output in whole slabs: row, column, channel; then zeros.
    fn packed_weights(&self) -> Vec<f32> {
        let row = self.slabs() * SLAB / self.element.bytes();
        let rows = self.weights.chunks(TAPS * CHANNELS);
        rows.flat_map(|weights| {
            let mut padded = weights.to_vec();
            padded.resize(row, 0.0);
            padded
        })
        .collect()
    }

    /// `Conv` in kernels/conv.h.
    fn params(&self, pointers: [u64; 7]) -> Vec<u64> {
        let [pixel_tiles, output_tiles] = self.tiles().map(|tiles| tiles as u32);
        let step = SLAB / self.element.bytes();
        let taps = step / CHANNELS;
        let words = |words: &[usize]| words.iter().map(|&word| word as u32).collect::<Vec<_>>();
        Struct::default()
            .wide(&pointers)
            .words(&words(&[PIXELS, self.outputs, self.slabs(), self.splits]))
            .divisor(output_tiles)
            .divisor(pixel_tiles)
            .words(&[output_tiles, pixel_tiles])
            .divisor((HEIGHT * WIDTH) as u32)
            .divisor(WIDTH as u32)
            .words(&words(&[HEIGHT * WIDTH, WIDTH, HEIGHT, WIDTH, CHANNELS, CHANNELS]))
            .words(&words(&[self.outputs, WINDOW, WINDOW, 1, 1, 1, 1]))
            .divisor(CHANNELS as u32)
            .divisor(WINDOW as u32)
            .words(&words(&[taps / WINDOW, taps % WINDOW, step % CHANNELS]))
            .words(&RELU)
            .words(&[self.outputs.is_multiple_of(4).into(), 0, 0])
            .finish()
    }

    fn expected(&self) -> Vec<f32> {
        let mut output = Vec::new();
        for pixel in 0..PIXELS {
            for k in 0..self.outputs {
                let added = self.bias[k] + self.residual[pixel * self.outputs + k];
                output.push(relu(self.sum(pixel, k) + added));
            }
        }
        output
    }

    fn sum(&self, pixel: usize, output: usize) -> f32 {
        let (image, row, column) =
            (pixel / (HEIGHT * WIDTH), pixel / WIDTH % HEIGHT, pixel % WIDTH);
        let mut sum = 0.0;
        for tap in 0..TAPS {
            let [y, x] = [row + tap / WINDOW, column + tap % WINDOW];
            if !(1..=HEIGHT).contains(&y) || !(1..=WIDTH).contains(&x) {
                continue;
            }
            let at = ((image * HEIGHT + y - 1) * WIDTH + x - 1) * CHANNELS;
            let weights = &self.weights[(output * TAPS + tap) * CHANNELS..][..CHANNELS];
            sum += weights.iter().zip(&self.input[at..]).map(|(w, x)| w * x).sum::<f32>();
        }
        sum
    }

    fn name(&self) -> String {
        let family = if self.element == Element::F32 { "fp32" } else { "fp16" };
        format!("conv_{family}_{}x{}", self.tile[0], self.tile[1])
    }

    /// Runs it: all at once, or if `evicted` only after every block was stopped when it started.
    fn run(&self, build: &str, evicted: bool) {
        let what =
            format!("{}, {build}, {} outputs, {} splits", self.name(), self.outputs, self.splits);
        let mut kernel = shipped("network", build, &self.name());
        kernel.shared = 2 * (self.tile[0] + self.tile[1]) * SLAB;
        let packed =
            [&self.input, &self.packed_weights(), &self.residual].map(|v| self.element.pack(v));
        let mut output = self.element.pack(&vec![-1.0; PIXELS * self.outputs]);
        let mut partials = vec![0_f32; self.splits * PIXELS * self.outputs.next_multiple_of(4)];
        let mut arrivals = vec![0_u32; self.tiles()[0] * self.tiles()[1]];
        let mut memory = Mapped::default();
        let [input, weights, residual] = packed.each_ref().map(|values| memory.map(values));
        let params = self.params([
            input,
            weights,
            memory.map(&self.bias),
            residual,
            memory.map_mut(&mut output),
            memory.map_mut(&mut partials),
            memory.map_mut(&mut arrivals),
        ]);
        let mut guard = Guard::new([self.blocks(), 1, 1]);
        let mut list = None;
        if evicted {
            guard.live = 2;
            guard.launch(&kernel, &mut memory, THREADS, None, &params);
            let all: Vec<_> = (0..self.blocks()).collect();
            assert_eq!(guard.listed(), all, "{what}");
            assert_eq!(output, self.element.pack(&vec![-1.0; PIXELS * self.outputs]), "{what}");
            list = Some(guard.list.clone());
            guard = Guard { live: 2, epoch: 2, ..Guard::new([self.blocks(), 1, 1]) };
        }
        guard.launch(&kernel, &mut memory, THREADS, list.as_deref(), &params);
        let got = self.element.unpack(&output);
        for (&got, expected) in got.iter().zip(self.expected()) {
            assert_same(got, expected, &what);
        }
        assert!(
            arrivals.iter().all(|&count| count == 0),
            "{what}: counters are for the next launch"
        );
    }
}

#[test]
fn every_tile_is_the_convolution_at_any_split() {
    for element in Element::BOTH {
        for tile in [[32, 32], [64, 32]] {
            for (outputs, splits) in [(36, 1), (37, 1), (40, 2), (5, 2)] {
                Case::new(element, tile, outputs, splits).run("plain", false);
            }
        }
    }
}

#[test]
fn evicted_tiles_have_written_nothing_and_run_later() {
    for element in Element::BOTH {
        for tile in [[32, 32], [64, 32]] {
            Case::new(element, tile, 36, 2).run("guarded", true);
        }
    }
}
