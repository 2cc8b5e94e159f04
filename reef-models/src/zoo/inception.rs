//! Inception v3 as torchvision has it, in inference: no auxiliary head, no `transform_input`.
//!
//! Each mixed block is one storage; its branches write into their channels of it.

use crate::model::builder::{Builder, Concat, Conv, Value, square};
use crate::model::image_model::ImageModel;
use crate::model::tensor::Norm;
use reef_op::{PoolKind, Window};

/// Layers of one branch: name, channels, window.
type Branch<'a> = &'a [(&'a str, usize, Window)];

const POINT: Window = Window { size: [1; 2], stride: [1; 2], padding: [0; 2] };
const THREE: Window = Window { size: [3; 2], stride: [1; 2], padding: [1; 2] };
const FIVE: Window = Window { size: [5; 2], stride: [1; 2], padding: [2; 2] };
/// Halves rows and columns, without padding.
const HALVE: Window = Window { size: [3; 2], stride: [2; 2], padding: [0; 2] };
const ROW_OF_3: Window = Window { size: [1, 3], stride: [1; 2], padding: [0, 1] };
const COLUMN_OF_3: Window = Window { size: [3, 1], stride: [1; 2], padding: [1, 0] };
const ROW_OF_7: Window = Window { size: [1, 7], stride: [1; 2], padding: [0, 3] };
const COLUMN_OF_7: Window = Window { size: [7, 1], stride: [1; 2], padding: [3, 0] };

/// Inception v3.
pub(crate) fn build(mut b: Builder, size: usize) -> ImageModel {
    let mut x = stem(&mut b, size);
    for (name, pool) in [("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)] {
        x = mixed_a(&mut b, x, name, pool);
    }
    x = reduce_b(&mut b, x, "Mixed_6a");
    for (name, c) in [("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)] {
        x = mixed_c(&mut b, x, name, c);
    }
    x = reduce_d(&mut b, x, "Mixed_7a");
    for name in ["Mixed_7b", "Mixed_7c"] {
        x = mixed_e(&mut b, x, name);
    }
    let x = b.global_average("avgpool", x);
    b.classify("fc", x, 1000)
}

fn stem(b: &mut Builder, size: usize) -> Value {
    let x = b.input(size);
    let x = b.conv(x, conv("Conv2d_1a_3x3", 32, HALVE));
    let x = b.conv(x, conv("Conv2d_2a_3x3", 32, square(3, 1, 0)));
    let x = b.conv(x, conv("Conv2d_2b_3x3", 64, THREE));
    let x = b.pool("maxpool1", x, PoolKind::Max, HALVE);
    let x = b.conv(x, conv("Conv2d_3b_1x1", 80, POINT));
    let x = b.conv(x, conv("Conv2d_4a_3x3", 192, square(3, 1, 0)));
    b.pool("maxpool2", x, PoolKind::Max, HALVE)
}

fn mixed_a(b: &mut Builder, x: Value, name: &str, pool: usize) -> Value {
    let mut mix = Mix::new(b, x, name, 64 + 64 + 96 + pool, POINT);
    mix.branch(&[("branch1x1", 64, POINT)]);
    mix.branch(&[("branch5x5_1", 48, POINT), ("branch5x5_2", 64, FIVE)]);
    mix.branch(&[
        ("branch3x3dbl_1", 64, POINT),
        ("branch3x3dbl_2", 96, THREE),
        ("branch3x3dbl_3", 96, THREE),
    ]);
    mix.average(pool);
    mix.done()
}

fn reduce_b(b: &mut Builder, x: Value, name: &str) -> Value {
    let mut mix = Mix::new(b, x, name, 384 + 96 + x.channels(), HALVE);
    mix.branch(&[("branch3x3", 384, HALVE)]);
    mix.branch(&[
        ("branch3x3dbl_1", 64, POINT),
        ("branch3x3dbl_2", 96, THREE),
        ("branch3x3dbl_3", 96, HALVE),
    ]);
    mix.maximum();
    mix.done()
}

fn mixed_c(b: &mut Builder, x: Value, name: &str, c: usize) -> Value {
    let mut mix = Mix::new(b, x, name, 4 * 192, POINT);
    mix.branch(&[("branch1x1", 192, POINT)]);
    mix.branch(&[
        ("branch7x7_1", c, POINT),
        ("branch7x7_2", c, ROW_OF_7),
        ("branch7x7_3", 192, COLUMN_OF_7),
    ]);
    mix.branch(&[
        ("branch7x7dbl_1", c, POINT),
        ("branch7x7dbl_2", c, COLUMN_OF_7),
        ("branch7x7dbl_3", c, ROW_OF_7),
        ("branch7x7dbl_4", c, COLUMN_OF_7),
        ("branch7x7dbl_5", 192, ROW_OF_7),
    ]);
    mix.average(192);
    mix.done()
}

fn reduce_d(b: &mut Builder, x: Value, name: &str) -> Value {
    let mut mix = Mix::new(b, x, name, 320 + 192 + x.channels(), HALVE);
    mix.branch(&[("branch3x3_1", 192, POINT), ("branch3x3_2", 320, HALVE)]);
    mix.branch(&[
        ("branch7x7x3_1", 192, POINT),
        ("branch7x7x3_2", 192, ROW_OF_7),
        ("branch7x7x3_3", 192, COLUMN_OF_7),
        ("branch7x7x3_4", 192, HALVE),
    ]);
    mix.maximum();
    mix.done()
}

fn mixed_e(b: &mut Builder, x: Value, name: &str) -> Value {
    let mut mix = Mix::new(b, x, name, 320 + 768 + 768 + 192, POINT);
    mix.branch(&[("branch1x1", 320, POINT)]);
    mix.fork(
        &[("branch3x3_1", 384, POINT)],
        [("branch3x3_2a", 384, ROW_OF_3), ("branch3x3_2b", 384, COLUMN_OF_3)],
    );
    mix.fork(
        &[("branch3x3dbl_1", 448, POINT), ("branch3x3dbl_2", 384, THREE)],
        [("branch3x3dbl_3a", 384, ROW_OF_3), ("branch3x3dbl_3b", 384, COLUMN_OF_3)],
    );
    mix.average(192);
    mix.done()
}

/// A mixed block under construction: branches from `x`, side by side in `output`.
struct Mix<'a> {
    b: &'a mut Builder,
    x: Value,
    name: &'a str,
    output: Concat,
}

impl<'a> Mix<'a> {
    /// A block of `channels`, as large as `window` makes its input.
    fn new(b: &'a mut Builder, x: Value, name: &'a str, channels: usize, window: Window) -> Self {
        let output = b.concat(name, channels, x.under(window));
        Self { b, x, name, output }
    }

    fn done(self) -> Value {
        self.output.filled()
    }

    /// Convolutions one after the other, the last into the output.
    fn branch(&mut self, layers: Branch<'_>) {
        if let Some((&last, trunk)) = layers.split_last() {
            let x = self.trunk(trunk);
            self.write(x, last);
        }
    }

    /// Convolutions one after the other, then two side by side into the output.
    fn fork(&mut self, trunk: Branch<'_>, tines: [(&str, usize, Window); 2]) {
        let x = self.trunk(trunk);
        tines.into_iter().for_each(|tine| self.write(x, tine));
    }

    fn trunk(&mut self, layers: Branch<'_>) -> Value {
        let append = |x, &(layer, channels, window): &_| {
            self.b.conv(x, conv(&format!("{}.{layer}", self.name), channels, window))
        };
        layers.iter().fold(self.x, append)
    }

    fn write(&mut self, x: Value, spec: (&str, usize, Window)) {
        let (layer, channels, window) = spec;
        let conv = conv(&format!("{}.{layer}", self.name), channels, window);
        self.b.conv_into(x, conv, self.output.next(channels));
    }

    /// The mean around each point, then a convolution.
    fn average(&mut self, channels: usize) {
        let name = format!("{}.avg_pool", self.name);
        let x = self.b.pool(&name, self.x, PoolKind::Average, THREE);
        self.write(x, ("branch_pool", channels, POINT));
    }

    /// The input itself, its rows and columns halved.
    fn maximum(&mut self) {
        let name = format!("{}.max_pool", self.name);
        let output = self.output.next(self.x.channels());
        self.b.pool_into(&name, self.x, PoolKind::Max, HALVE, output);
    }
}

/// torchvision's `BasicConv2d`: convolution, normalisation, ReLU.
fn conv(name: &str, channels: usize, window: Window) -> Conv {
    let norm = Norm { name: format!("{name}.bn"), epsilon: 1e-3, ends_branch: false };
    Conv::new(format!("{name}.conv"), channels, window).norm(norm).relu()
}
