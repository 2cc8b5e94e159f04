//! Networks of ordinary tensors that can be built by name.

use super::text::by_name::{TEXT_NAMES, build_text};
use super::vision;
use crate::errors::error::{Error, Result};
use crate::model::tensors::Tensors;
use crate::tensors::model::TensorModel;

/// Networks of ordinary tensors that can be built: those of text, [`TEXT_NAMES`], and ViT-B/16.
pub const TENSOR_NAMES: &[&str] = &["bert", "distilbert", "vit_b_16"];

/// Builds the network called `name`, one of [`TENSOR_NAMES`], for `batch` texts or images at a
/// time. Its size is the number of tokens of a text ([`build_text`]), or rows and columns of a
/// image.
///
/// `vit_b_16` has the layers and the names of tensors of torchvision's. Its input, `input`, is
/// images of three planes of 224 rows and columns, of 32-bit floats; its output, `logits`, has
/// 1000 classes for each.
///
/// # Errors
///
/// `UnknownNetwork`, `OutOfRange` for the size or the batch; `Tensor` if one is missing or of
/// another length.
pub(crate) fn build_tensors(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::seeded::Seeded;
    use crate::tensors::attention::find::joined;

    #[test]
    fn each_layer_has_one_attention_for_devices_that_have_it_so() {
        for (name, layers) in [("bert", 12), ("distilbert", 6), ("vit_b_16", 12)] {
            let model = build_tensors(name, None, 2, Tensors::Seeded(Seeded(1))).unwrap();
            let steps = joined(model.steps(), &model.outputs, &|_| true);
            let count = |name| steps.iter().filter(|step| step.op.name() == name).count();
            // Nothing is left of heads that are moved, but one move of ViT's image. The last
            // layer takes the first token of queries and of a residual.
            assert_eq!(count("attention"), layers, "{name}");
            assert!(count("move") <= 3, "{name}: {}", count("move"));
            assert!(model.arena_of(steps.chunks(1)).bytes <= model.arena().bytes, "{name}");
        }
    }
}
