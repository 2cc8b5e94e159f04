//! Networks of ordinary tensors that can be built by name.

use super::text::by_name::{TEXT_NAMES, build_text};
use super::vision;
use crate::errors::error::{Error, Result};
use crate::model::tensors::Tensors;
use crate::tensors::model::TensorModel;

/// The networks that [`build_tensors`] knows: those of text, [`TEXT_NAMES`], and ViT-B/16.
pub const TENSOR_NAMES: &[&str] = &["bert", "distilbert", "vit_b_16"];

/// Builds the network called `name`, one of [`TENSOR_NAMES`], for `batch` texts or pictures at a time. Its size is the
/// number of tokens of a text ([`build_text`]), or rows and columns of a picture.
///
/// `vit_b_16` has the layers and the names of tensors of torchvision's. Its input, `input`, is pictures of three planes
/// of 224 rows and columns, of 32-bit floats; its output, `logits`, has 1000 classes for each.
///
/// # Errors
///
/// `UnknownNetwork`, `OutOfRange` for the size or the batch; `Tensor` if one is missing or of another length.
pub fn build_tensors(
    name: &str,
    size: Option<usize>,
    batch: usize,
    tensors: Tensors,
) -> Result<TensorModel> {
    match name {
        "vit_b_16" => vision::vit_b_16(size, batch, tensors),
        name if TEXT_NAMES.contains(&name) => build_text(name, size, batch, tensors),
        _ => Err(Error::UnknownNetwork { asked: name.into(), have: TENSOR_NAMES.join(", ") }),
    }
}
