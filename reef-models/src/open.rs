//! Networks by whatever names them: a name, a folder, an ONNX file.

use crate::folder::Folder;
use crate::model::{Model, NAMES, build};
use crate::param::Params;
use crate::profile::Latencies;
use crate::tensor::{Source, TensorSpec};
use crate::weights::Seeded;
use crate::{Error, Result};
use std::path::Path;

/// A network and where its tensors come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The schedule.
    pub model: Model,
    /// Its tensors.
    pub tensors: Tensors,
    /// How long its launches take, if the folder says.
    pub latencies: Option<Latencies>,
}

/// Made-up tensors or those of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Tensors {
    /// Made up.
    Seeded(Seeded),
    /// Read.
    Read(Params),
}

impl Source for Tensors {
    fn tensor(&self, tensor: &TensorSpec) -> Result<Vec<f32>> {
        match self {
            Self::Seeded(seeded) => seeded.tensor(tensor),
            Self::Read(params) => params.tensor(tensor),
        }
    }
}

/// Opens `what`: one of [`NAMES`], with tensors that `seed` makes up; a [`Folder`]; an ONNX file.
///
/// Without a size or a batch they are those that the network has, or else its usual size and a batch of 1.
///
/// # Errors
///
/// `UnknownNetwork` if it is none of these, `OutOfRange` if a folder's network has another size or batch
/// than the one asked for; those of [`build`], [`Folder::load`] and the reader of ONNX files.
pub fn open(what: &str, size: Option<usize>, batch: Option<usize>, seed: Seeded) -> Result<Opened> {
    let path = Path::new(what);
    if NAMES.contains(&what) {
        let model = build(what, size, batch.unwrap_or(1))?;
        return Ok(Opened { model, tensors: Tensors::Seeded(seed), latencies: None });
    }
    if path.is_dir() {
        let Folder { model, params, latencies } = Folder::load(path)?;
        fits(what, &model, size, batch)?;
        return Ok(Opened { model, tensors: Tensors::Read(params), latencies });
    }
    #[cfg(feature = "onnx")]
    if path.extension().is_some_and(|extension| extension == "onnx") {
        let options = crate::onnx::Options { batch, size };
        let crate::onnx::Imported { model, params } = crate::onnx::load(path, &options)?;
        return Ok(Opened { model, tensors: Tensors::Read(params), latencies: None });
    }
    let have = format!("{}, folders of networks, .onnx files", NAMES.join(", "));
    Err(Error::UnknownNetwork { asked: what.into(), have })
}

/// Refuses another size or batch than the network was made for.
fn fits(network: &str, model: &Model, size: Option<usize>, batch: Option<usize>) -> Result<()> {
    let input = model.input();
    for (what, asked, have) in [("input size", size, input.height), ("batch", batch, input.batch)] {
        if let Some(asked) = asked.filter(|&asked| asked != have) {
            let network = network.into();
            return Err(Error::OutOfRange { network, what, asked, least: have, most: have });
        }
    }
    Ok(())
}
