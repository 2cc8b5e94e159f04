//! Torchvision's transform for the images of a network.

use super::model::Model;
use crate::errors::error::{Error, Result};
use crate::run::image::Transform;
use std::path::Path;

impl Transform {
    /// Returns that of a model that was [opened](Model::open) as `what`.
    ///
    /// # Errors
    ///
    /// `NotImage`, or `NoImage` if it doesn't look at squares of three colours.
    pub fn of_model(what: &str, model: &Model) -> Result<Self> {
        let (model, _) = model.image()?;
        let input = model.input();
        if (input.channels, input.height) != (3, input.width) {
            let shape = [input.channels, input.height, input.width];
            return Err(Error::NoImage { network: what.into(), shape });
        }
        // An ONNX file has in it what torchvision does to images behind the transform.
        let is_built = Path::new(what).extension().is_none_or(|extension| extension != "onnx");
        let name = if is_built { model.graph().name.as_str() } else { "" };
        Ok(Self::of(name, input.height))
    }
}
