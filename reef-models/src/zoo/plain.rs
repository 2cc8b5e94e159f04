//! VGG and AlexNet as torchvision has them: one layer after the other, each with a bias.
//!
//! Both flatten an image before the first linear layer, which is a convolution with a window as
//! large as that image. torchvision would scale other sizes to this one; here there is only this
//! one.

use crate::model::builder::{Builder, Conv, Value, square};
use crate::model::image_model::ImageModel;
use reef_op::{PoolKind, Window};

/// Rows and columns of the image that both take.
pub(crate) const SIZE: usize = 224;

/// Channels of VGG's convolutions in groups that end with a pool.
type Groups<'a> = &'a [&'a [usize]];

/// The groups of VGG-19.
pub(crate) const VGG19: Groups<'_> = &[&[64; 2], &[128; 2], &[256; 4], &[512; 4], &[512; 4]];

pub(crate) fn vgg(mut b: Builder, groups: Groups<'_>) -> ImageModel {
    let mut x = b.input(SIZE);
    let mut number = 0; // torchvision counts convolutions, ReLUs and pools
    for group in groups {
        for &channels in *group {
            x = layer(&mut b, x, number, channels, square(3, 1, 1));
            number += 2;
        }
        x = b.pool(&format!("features.{number}"), x, PoolKind::Max, square(2, 2, 0));
        number += 1;
    }
    let x = hidden(&mut b, x, "classifier.0");
    let x = b.linear("classifier.3", x, 4096);
    b.classify("classifier.6", x, 1000)
}

pub(crate) fn alexnet(mut b: Builder) -> ImageModel {
    let pool = square(3, 2, 0);
    let x = b.input(SIZE);
    let x = layer(&mut b, x, 0, 64, square(11, 4, 2));
    let x = b.pool("features.2", x, PoolKind::Max, pool);
    let x = layer(&mut b, x, 3, 192, square(5, 1, 2));
    let x = b.pool("features.5", x, PoolKind::Max, pool);
    let x = layer(&mut b, x, 6, 384, square(3, 1, 1));
    let x = layer(&mut b, x, 8, 256, square(3, 1, 1));
    let x = layer(&mut b, x, 10, 256, square(3, 1, 1));
    let x = b.pool("features.12", x, PoolKind::Max, pool);
    let x = hidden(&mut b, x, "classifier.1");
    let x = b.linear("classifier.4", x, 4096);
    b.classify("classifier.6", x, 1000)
}

/// Convolution and ReLU.
fn layer(b: &mut Builder, x: Value, number: usize, channels: usize, window: Window) -> Value {
    b.conv(x, Conv::new(format!("features.{number}"), channels, window).biased().relu())
}

/// The linear layer that sees all of an image.
fn hidden(b: &mut Builder, x: Value, name: &str) -> Value {
    let size = [x.tensor.height, x.tensor.width];
    let window = Window { size, stride: [1; 2], padding: [0; 2] };
    b.conv(x, Conv::new(name, 4096, window).biased().relu())
}
