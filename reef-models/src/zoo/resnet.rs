//! ResNet as torchvision has it: stride on the 3x3 convolution of a bottleneck.

use crate::model::builder::{Builder, Conv, Value, square};
use crate::model::image_model::ImageModel;
use crate::model::tensor::Norm;
use reef_op::PoolKind;

/// Residual branch that a network repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// Two 3x3 convolutions.
    Basic,
    /// 1x1 to fewer channels, 3x3, and 1x1 to four times as many.
    Bottleneck,
}

/// A ResNet with these numbers of blocks at 64, 128, 256 and 512 channels.
pub(crate) fn build(mut b: Builder, block: Block, depths: [usize; 4], size: usize) -> ImageModel {
    let data = b.input(size);
    let stem = Conv::new("conv1", 64, square(7, 2, 3)).norm(norm("bn1")).relu();
    let stem = b.conv(data, stem);
    let mut x = b.pool("maxpool", stem, PoolKind::Max, square(3, 2, 1));
    for (i, depth) in depths.into_iter().enumerate() {
        for j in 0..depth {
            let stride = if i > 0 && j == 0 { 2 } else { 1 };
            x = block.append(&mut b, x, &format!("layer{}.{j}", i + 1), 64 << i, stride);
        }
    }
    let x = b.global_average("avgpool", x);
    b.classify("fc", x, 1000)
}

impl Block {
    fn append(
        self,
        b: &mut Builder,
        x: Value,
        name: &str,
        channels: usize,
        stride: usize,
    ) -> Value {
        let conv =
            |n: usize, channels, window| Conv::new(format!("{name}.conv{n}"), channels, window);
        let bn = |n: usize| norm(&format!("{name}.bn{n}"));
        let last = |n: usize| Norm { ends_branch: true, ..bn(n) };
        match self {
            Self::Basic => {
                let y = b.conv(x, conv(1, channels, square(3, stride, 1)).norm(bn(1)).relu());
                let x = shortcut(b, x, name, channels, stride);
                b.conv(y, conv(2, channels, square(3, 1, 1)).norm(last(2)).add(x).relu())
            }
            Self::Bottleneck => {
                let y = b.conv(x, conv(1, channels, square(1, 1, 0)).norm(bn(1)).relu());
                let y = b.conv(y, conv(2, channels, square(3, stride, 1)).norm(bn(2)).relu());
                let x = shortcut(b, x, name, channels * 4, stride);
                b.conv(y, conv(3, channels * 4, square(1, 1, 0)).norm(last(3)).add(x).relu())
            }
        }
    }
}

/// Other operand of the branch's sum: `x` itself, or a 1x1 convolution where its shape doesn't fit.
fn shortcut(b: &mut Builder, x: Value, name: &str, channels: usize, stride: usize) -> Value {
    if stride == 1 && x.channels() == channels {
        return x;
    }
    let conv = Conv::new(format!("{name}.downsample.0"), channels, square(1, stride, 0));
    b.conv(x, conv.norm(norm(&format!("{name}.downsample.1"))))
}

fn norm(name: &str) -> Norm {
    Norm { name: name.into(), epsilon: 1e-5, ends_branch: false }
}
