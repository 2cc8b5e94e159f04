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
