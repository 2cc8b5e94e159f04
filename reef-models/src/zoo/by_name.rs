//! Networks that can be built by name.

use super::range::{MAX_SIZE, in_range};
use super::resnet::Block;
use super::tensors_by_name::TENSOR_NAMES;
use super::text::{by_name::TEXT_NAMES, encoder::INPUTS};
use super::{densenet, inception, mobilenet, plain, resnet};
use crate::errors::error::{Error, Result};
use crate::model::builder::Builder;
use crate::model::image_model::ImageModel;

/// Networks for images that can be built.
pub const NAMES: &[&str] = &[
    "resnet18",
    "resnet50",
    "resnet152",
    "densenet121",
    "densenet201",
    "inception_v3",
    "vgg19",
    "alexnet",
    "mobilenet_v1",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "mobilenet_v3_large",
];

/// Builds the network called `name`, one of [`NAMES`], for `batch` square images at a time.
///
/// Without an `input_size` it is the one that the network was designed for: 299 rows and columns
/// for inception_v3, 224 for the others. The least is 75 and 32; vgg19 and alexnet take 224 only.
///
/// # Errors
///
/// `UnknownNetwork`, `NotImage` if it is one of tensors, or `OutOfRange` for the size or the
/// batch.
pub(crate) fn build(name: &str, input_size: Option<usize>, batch: usize) -> Result<ImageModel> {
    let (usual, sizes) = match name {
        "inception_v3" => (299, 75..=MAX_SIZE),
        "vgg19" | "alexnet" => (plain::SIZE, plain::SIZE..=plain::SIZE),
        _ => (224, 32..=MAX_SIZE),
    };
    let size = input_size.unwrap_or(usual);
    in_range(name, "batch", batch, 1..=MAX_SIZE)?;
    in_range(name, "input size", size, sizes)?;
    let b = Builder::new(name, batch);
    Ok(match name {
        "resnet18" => resnet::build(b, Block::Basic, [2, 2, 2, 2], size),
        "resnet50" => resnet::build(b, Block::Bottleneck, [3, 4, 6, 3], size),
        "resnet152" => resnet::build(b, Block::Bottleneck, [3, 8, 36, 3], size),
        "densenet121" => densenet::build(b, [6, 12, 24, 16], size),
        "densenet201" => densenet::build(b, [6, 12, 48, 32], size),
        "inception_v3" => inception::build(b, size),
        "vgg19" => plain::vgg(b, plain::VGG19),
        "alexnet" => plain::alexnet(b),
        "mobilenet_v1" => mobilenet::v1(b, size),
        "mobilenet_v2" => mobilenet::v2(b, size),
        "mobilenet_v3_small" => mobilenet::v3(b, mobilenet::SMALL, 1024, size),
        "mobilenet_v3_large" => mobilenet::v3(b, mobilenet::LARGE, 1280, size),
        _ if TEXT_NAMES.contains(&name) => {
            return Err(Error::NotImage { network: name.into(), inputs: INPUTS.join(", ") });
        }
        _ if TENSOR_NAMES.contains(&name) => {
            return Err(Error::NotImage { network: name.into(), inputs: "input".into() });
        }
        _ => return Err(Error::UnknownNetwork { asked: name.into(), have: NAMES.join(", ") }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::order::grouped;
    use crate::model::image_model::Layer;
    use reef_op::Op;

    /// Names of the steps of each launch of a network, if convolutions of one depth share one.
    fn launches(name: &str) -> Vec<Vec<String>> {
        let model = build(name, None, 1).unwrap();
        let steps = &model.graph().steps;
        let is_conv = |step: &&usize| matches!(model.layers()[**step].op, Op::Conv2d(_));
        let groups = grouped(model.graph(), |some| some.iter().take_while(is_conv).count().max(1));
        let mut written = vec![false; model.graph().storages.len()];
        model.graph().given.iter().for_each(|&given| written[given] = true);
        for group in &groups {
            let mut reads = group.iter().flat_map(|&step| &steps[step].reads);
            assert!(reads.all(|&read| written[read]), "{group:?}");
            group.iter().for_each(|&step| written[steps[step].writes] = true);
        }
        let name = |&step: &usize| steps[step].name.clone();
        groups.iter().map(|group| group.iter().map(name).collect()).collect()
    }

    /// Launches of convolutions, and convolutions.
    fn convolutions(name: &str) -> [usize; 2] {
        let model = build(name, None, 1).unwrap();
        let launches = launches(name);
        let all: usize = launches.iter().map(Vec::len).sum();
        assert_eq!(all, model.layers().len(), "{name}: each step once");
        let is_other = |layer: &&Layer| !matches!(layer.op, Op::Conv2d(_));
        let others = model.layers().iter().filter(is_other).count();
        [launches.len() - others, all - others]
    }

    #[test]
    fn convolutions_of_one_depth_share_launches() {
        assert_eq!(convolutions("inception_v3"), [47, 94]);
        assert_eq!(convolutions("resnet50"), [49, 53]);
        assert_eq!(convolutions("resnet18"), [17, 20]);
        assert_eq!(convolutions("vgg19"), [17, 17], "its first linear layer is one");
        assert_eq!(convolutions("densenet121"), [120, 120]);
    }

    #[test]
    fn branches_of_inception_come_by_depth() {
        let launches = launches("inception_v3");
        let first = |name: &str| launches.iter().position(|group| group[0] == name).unwrap();
        let at = first("Mixed_5b.branch1x1.conv");
        let block = [
            &["branch1x1.conv", "branch5x5_1.conv", "branch3x3dbl_1.conv"][..],
            &["avg_pool"],
            &["branch5x5_2.conv", "branch3x3dbl_2.conv", "branch_pool.conv"],
            &["branch3x3dbl_3.conv"],
        ];
        for (group, want) in launches[at..].iter().zip(block) {
            let want: Vec<_> = want.iter().map(|name| format!("Mixed_5b.{name}")).collect();
            assert_eq!(*group, want);
        }
    }

    #[test]
    fn built_graphs_satisfy_what_loaded_ones_do() {
        for name in NAMES {
            let least = match *name {
                "inception_v3" => 75,
                "vgg19" | "alexnet" => 224,
                _ => 32,
            };
            for size in [Some(least), None] {
                let model = build(name, size, 3).unwrap();
                assert_eq!(model.graph().validate(), Ok(()), "{name}");
                assert_eq!(model.graph().kernels().len(), model.layers().len(), "{name}: names");
            }
        }
    }
}
