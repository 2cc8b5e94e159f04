//! kernels/depthwise.h.

use super::guard::Guard;
use super::params::{Element, IMAGES, RELU, Shape, Struct, assert_same, integers, relu};
use super::shipped;
use crate::common::Mapped;

const THREADS: u32 = 128;
/// Outputs of a thread, channels and strips of a block.
const STRIP: u32 = 4;
const LANES: u32 = 32;
const STRIPS: u32 = 4;

/// A window with a border of zeros around the images.
struct Case {
    element: Element,
    from: Shape,
    to: Shape,
    size: u32,
    stride: u32,
    padding: u32,
    biased: bool,
}

impl Case {
    fn new(element: Element, [height, width, channels]: [u32; 3], window: [u32; 3]) -> Self {
        let [size, stride, padding] = window;
        let over = |n: u32| (n + 2 * padding - size) / stride + 1;
        let (from, to) =
            (Shape([height, width, channels]), Shape([over(height), over(width), channels]));
        Self { element, from, to, size, stride, padding, biased: channels % 2 == 0 }
    }

    fn groups(&self) -> u32 {
        self.to.0[2].div_ceil(LANES)
    }

    /// Strips of a row, and of all rows.
    fn strips(&self) -> [u32; 2] {
        let [height, width, _] = self.to.0;
        let strips = width.div_ceil(STRIP);
        [strips, IMAGES * height * strips]
    }

    fn name(&self) -> String {
        let suffix = if self.element == Element::F32 { "f32" } else { "f16" };
        let by = if self.stride == 1 { String::new() } else { format!("_by_{}", self.stride) };
        format!("depthwise_{0}x{0}{by}_{suffix}", self.size)
    }

    fn params(&self, [input, output, weights, bias]: [u64; 4]) -> Vec<u64> {
        let [strips, count] = self.strips();
        Struct::default()
            .view(input, self.from)
            .view(output, self.to)
            .wide(&[weights, if self.biased { bias } else { 0 }])
            .divisor(self.groups())
            .divisor(strips)
            .divisor(self.to.0[0])
            .words(&[self.to.0[2], self.groups(), strips, count, self.padding, self.padding])
            .words(&RELU)
            .words(&[self.biased.into()]) // either way of waiting for weights
            .finish()
    }

    /// Runs it: all at once, or if `evicted` only after every block was stopped when it started.
    fn run(&self, evicted: bool) {
        let what = format!("{} of {:?}, evicted: {evicted}", self.name(), self.from);
        let taps = self.size * self.size;
        let channels = self.to.0[2];
        let mut input = integers(self.from.len(), 31);
        input[5] = f32::NAN;
        let (weights, bias) =
            (integers((channels * taps) as usize, 3), integers(channels as usize, 9));
        let kernel = shipped("network", "guarded", &self.name());
        let packed = self.element.pack(&input);
        let before = self.element.pack(&vec![-99.0; self.to.len()]);
        let mut output = before.clone();
        let mut memory = Mapped::default();
        let addresses = [memory.map(&packed), memory.map_mut(&mut output)];
        let constants = [memory.map(&weights), memory.map(&bias)];
        let params = self.params([addresses[0], addresses[1], constants[0], constants[1]]);
        let blocks = self.groups() * self.strips()[1].div_ceil(STRIPS);
        let mut guard = Guard::new([blocks, 1, 1]);
        let mut list = None;
        if evicted {
            guard.live = 2;
            guard.launch(&kernel, &mut memory, THREADS, None, &params);
            assert_eq!(guard.listed(), (0..blocks).collect::<Vec<_>>(), "{what}");
            assert_eq!(output, before, "{what}");
            list = Some(guard.list.clone());
            guard = Guard { live: 2, epoch: 2, ..Guard::new([blocks, 1, 1]) };
        }
        guard.launch(&kernel, &mut memory, THREADS, list.as_deref(), &params);
        assert_eq!(guard.stopped, 0, "{what}");
        let got = self.element.unpack(&output);
        for (got, [n, y, x, c]) in got.iter().zip(self.to.places()) {
            let mut sum = if self.biased { bias[c as usize] } else { 0.0 };
            for tap in 0..i64::from(taps) {
                let size = i64::from(self.size);
                let place =
                    |at: i64, tap: i64| at * i64::from(self.stride) + tap - i64::from(self.padding);
                let pixel = [n, place(y, tap / size), place(x, tap % size), c];
                let weight = weights[(c * i64::from(taps) + tap) as usize];
                sum += self.from.at(pixel).map_or(0.0, |at| input[at] * weight);
            }
            assert_same(*got, relu(sum), &format!("{what}: {:?}", [n, y, x, c]));
        }
    }
}

/// Odd sizes: groups of channels, strips and blocks that are not full, images smaller than a
/// strip or a window.
#[test]
fn each_channel_is_convolved_by_itself() {
    let windows = [[3, 1, 1], [3, 2, 1], [5, 1, 2], [5, 2, 2], [7, 1, 3]];
    for (k, window) in windows.into_iter().enumerate() {
        for element in Element::BOTH {
            for sizes in [[7, 9, 33], [3, 3, 5], [6, 13, 64]] {
                Case::new(element, sizes, window).run(k % 2 == 0);
            }
        }
    }
    Case::new(Element::F32, [9, 8, 3], [3, 1, 0]).run(false);
}
