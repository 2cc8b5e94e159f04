//! DenseNet as torchvision has it.
//!
//! A dense block is one storage. Each layer reads the channels filled so far and writes 32 more
//! behind them; whatever comes before the block writes straight into its first channels.

use crate::model::builder::{Builder, Concat, Conv, square};
use crate::model::image_model::ImageModel;
use crate::model::tensor::Norm;
use reef_op::PoolKind;

/// Channels that each layer adds.
const GROWTH: usize = 32;

/// A DenseNet with these numbers of layers in its blocks.
pub(crate) fn build(mut b: Builder, depths: [usize; 4], size: usize) -> ImageModel {
    let mut block = stem(&mut b, depths[0], size);
    for (i, depth) in depths.into_iter().enumerate() {
        for j in 0..depth {
            let name = format!("features.denseblock{}.denselayer{}", i + 1, j + 1);
            dense_layer(&mut b, &mut block, &name);
        }
        if let Some(&next) = depths.get(i + 1) {
            block = transition(&mut b, &block, i + 1, next);
        }
    }
    let x = b.norm_relu(block.filled(), norm("features.norm5"));
    let x = b.global_average("avgpool", x);
    b.classify("classifier", x, 1000)
}

/// 7x7 convolution and pool, into the first block.
fn stem(b: &mut Builder, depth: usize, size: usize) -> Concat {
    let data = b.input(size);
    let conv = Conv::new("features.conv0", 64, square(7, 2, 3));
    let x = b.conv(data, conv.norm(norm("features.norm0")).relu());
    let window = square(3, 2, 1);
    let mut block = b.concat("features.denseblock1", 64 + GROWTH * depth, x.under(window));
    b.pool_into("features.pool0", x, PoolKind::Max, window, block.next(64));
    block
}

fn dense_layer(b: &mut Builder, block: &mut Concat, name: &str) {
    let x = b.norm_relu(block.filled(), norm(&format!("{name}.norm1")));
    let squeeze = Conv::new(format!("{name}.conv1"), 4 * GROWTH, square(1, 1, 0));
    let x = b.conv(x, squeeze.norm(norm(&format!("{name}.norm2"))).relu());
    let grow = Conv::new(format!("{name}.conv2"), GROWTH, square(3, 1, 1));
    b.conv_into(x, grow, block.next(GROWTH));
}

/// Halves channels, rows and columns, into the block that comes next and has `depth` layers.
fn transition(b: &mut Builder, block: &Concat, number: usize, depth: usize) -> Concat {
    let name = format!("features.transition{number}");
    let x = b.norm_relu(block.filled(), norm(&format!("{name}.norm")));
    let half = x.channels() / 2;
    let x = b.conv(x, Conv::new(format!("{name}.conv"), half, square(1, 1, 0)));
    let window = square(2, 2, 0);
    let storage = format!("features.denseblock{}", number + 1);
    let mut next = b.concat(&storage, half + GROWTH * depth, x.under(window));
    let pool = format!("{name}.pool");
    b.pool_into(&pool, x, PoolKind::Average, window, next.next(half));
    next
}

fn norm(name: &str) -> Norm {
    Norm { name: name.into(), epsilon: 1e-5, ends_branch: false }
}
