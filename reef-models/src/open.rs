//! Networks by whatever names them: a name, a folder, an ONNX file, a file of weights.

use crate::errors::error::{Error, Result};
use crate::files::folder::Folder;
#[cfg(feature = "onnx")]
use crate::files::folder::MODEL;
use crate::files::kind::unread;
use crate::files::profile::Latencies;
use crate::files::safetensors::read as safetensors;
use crate::memory::budget::Budget;
use crate::model::params::Params;
use crate::model::picture_model::Model;
#[cfg(feature = "onnx")]
use crate::model::ports::Port;
use crate::model::seeded::Seeded;
use crate::model::tensors::Tensors;
#[cfg(feature = "onnx")]
use crate::onnx::{
    evaluate::execute::execute,
    general::{
        either::{Either, load_either_within},
        options::TensorOptions,
    },
    load::Imported,
    walk::Options,
};
use crate::program::folder::is_program;
use crate::run::any_model::AnyModel;
use crate::run::reference;
use crate::zoo::by_name::{NAMES, build};
use crate::zoo::tensors_by_name::{TENSOR_NAMES, build_tensors};
use std::path::Path;
#[cfg(feature = "onnx")]
use std::path::PathBuf;

/// A network that was read or built.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The network with its constants.
    pub model: AnyModel,
    /// How long its launches take, if the folder says.
    pub latencies: Option<Latencies>,
}

/// Opens `what`: one of [`NAMES`] or [`TENSOR_NAMES`], with tensors that `seed` makes up; a
/// [`Folder`]; an ONNX file, or a folder with a `model.onnx`; a `.safetensors` file whose name
/// begins with one of these names, as torchvision calls its own (`resnet18-f37072fd`).
///
/// An ONNX file becomes a network for pictures if it can be expressed as one and declares no output
/// of several rows or columns, and a network of ordinary tensors otherwise
/// ([`onnx::load_tensors`](crate::onnx::load_tensors)).
///
/// Without a size or a batch they are those that the network has, or else its usual size and a
/// batch of 1. The size of a network of text is its number of tokens. A network of tensors takes
/// the batch as the first size of inputs that leave that open, and the size as rows and columns of
/// inputs of four dimensions that leave those open.
///
/// # Errors
///
/// `UnknownNetwork` if it is none of these, `OutOfRange` if a folder's network has another size or
/// batch than the one asked for; those of [`build`], [`Folder::load`], [`open_weights`] and the
/// reader of ONNX files.
pub fn open(what: &str, size: Option<usize>, batch: Option<usize>, seed: Seeded) -> Result<Opened> {
    open_within(what, size, batch, seed, &Budget::default())
}

/// As [`open()`], with memory of `budget` for what is read of files.
///
/// # Errors
///
/// As [`open()`]; `Memory` if it would take more.
pub fn open_within(
    what: &str,
    size: Option<usize>,
    batch: Option<usize>,
    seed: Seeded,
    budget: &Budget,
) -> Result<Opened> {
    let path = Path::new(what);
    if NAMES.contains(&what) {
        let model = build(what, size, batch.unwrap_or(1))?;
        return Ok(picture(model, Tensors::Seeded(seed), None));
    }
    if TENSOR_NAMES.contains(&what) {
        return tensors(what, size, batch, Tensors::Seeded(seed));
    }
    #[cfg(feature = "onnx")]
    if let Some(file) = onnx_in(path) {
        return open_onnx(path, &file, (size, batch), budget);
    }
    if path.is_dir() && is_program(path) {
        let why = "brings its kernels as source, which GPUs run alone: ProgramModel reads it, or \
                   `reef run --input`"
            .into();
        return Err(Error::Kind { file: what.into(), why });
    }
    if path.is_dir() {
        let Folder { model, params, latencies } = Folder::load_within(path, budget)?;
        fits(what, &model, size, batch)?;
        return Ok(picture(model, Tensors::Read(params), latencies));
    }
    if let Some(network) = named_by(path) {
        return open_weights_within(network, path, size, batch, budget);
    }
    if let Some(error) = unread(path) {
        return Err(error);
    }
    let names = [NAMES, TENSOR_NAMES].concat().join(", ");
    let have = format!("{names}, folders of networks, .onnx files, NETWORK.safetensors");
    Err(Error::UnknownNetwork { asked: what.into(), have })
}

/// Opens one of [`NAMES`] or [`TENSOR_NAMES`] with weights of a `.param` or a `.safetensors` file.
///
/// # Errors
///
/// Those of [`build`] and of the file's reader; `MissingTensor` or `Length` if the weights are of
/// another network.
pub fn open_weights(
    network: &str,
    file: impl AsRef<Path>,
    size: Option<usize>,
    batch: Option<usize>,
) -> Result<Opened> {
    open_weights_within(network, file, size, batch, &Budget::default())
}

/// As [`open_weights`], with memory of `budget` for what is read of the file.
///
/// # Errors
///
/// As [`open_weights`]; `Memory` if it would take more.
pub fn open_weights_within(
    network: &str,
    file: impl AsRef<Path>,
    size: Option<usize>,
    batch: Option<usize>,
    budget: &Budget,
) -> Result<Opened> {
    let file = file.as_ref();
    if let Some(error) = unread(file) {
        return Err(error);
    }
    let read = || match file.extension().is_some_and(|extension| extension == "safetensors") {
        true => safetensors::load_within(file, budget),
        false => Params::load_within(file, budget),
    };
    if TENSOR_NAMES.contains(&network) {
        return tensors(network, size, batch, Tensors::Read(read()?));
    }
    let model = build(network, size, batch.unwrap_or(1))?;
    let params = model.keep_of(read()?)?;
    Ok(picture(model, Tensors::Read(params), None))
}

fn tensors(
    name: &str,
    size: Option<usize>,
    batch: Option<usize>,
    tensors: Tensors,
) -> Result<Opened> {
    let model = build_tensors(name, size, batch.unwrap_or(1), tensors)?;
    Ok(Opened { model: AnyModel::Tensors(model), latencies: None })
}

pub(crate) fn picture(model: Model, tensors: Tensors, latencies: Option<Latencies>) -> Opened {
    Opened { model: AnyModel::Picture { model, tensors }, latencies }
}

/// Opens an ONNX file as a network for pictures or else as one of tensors, named after `place`.
#[cfg(feature = "onnx")]
fn open_onnx(
    place: &Path,
    file: &Path,
    (size, batch): (Option<usize>, Option<usize>),
    budget: &Budget,
) -> Result<Opened> {
    let pictures = Options { batch, size };
    let tensors = TensorOptions { size, batch, ..TensorOptions::default() };
    let mut model = match load_either_within(file, Some(&pictures), |_| true, &tensors, budget)? {
        Either::Picture(Imported { model, params }) => {
            return Ok(picture(model, Tensors::Read(params), None));
        }
        Either::Tensors(model) => model,
    };
    model.name = place.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let sides = |port: &Port| (port.spec.dims.len() == 4).then(|| port.spec.dims[2..].to_vec());
    match size {
        Some(size) if model.inputs.iter().filter_map(sides).all(|sides| sides != [size; 2]) => {
            let why =
                format!("{}: no input leaves rows and columns open for size {size}", model.name);
            Err(Error::Tensor { why })
        }
        _ => Ok(Opened { model: AnyModel::Tensors(model), latencies: None }),
    }
}

/// What the network that was [opened](open()) as `what` gives for `input` by plain loops on the
/// host.
///
/// An ONNX file is executed node by node as it stands, before anything of it was rewritten
/// ([`onnx::execute`](fn@crate::onnx::execute)), so that a fault of the reader shows too; anything
/// else step by step ([`reference`](mod@crate::reference)). Size and batch are those that it was
/// opened with. For networks of tensors there is
/// [`TensorModel::execute`](crate::TensorModel::execute).
///
/// # Errors
///
/// `NotPicture` for a network of tensors, `Length` if `input` is not as long as the network's
/// input; those of both executors.
#[cfg_attr(not(feature = "onnx"), expect(unused_variables, reason = "all are steps of a schedule"))]
pub fn expected(
    what: &str,
    opened: &Opened,
    size: Option<usize>,
    batch: Option<usize>,
    input: &[f32],
) -> Result<Vec<f32>> {
    let (model, tensors) = opened.model.picture()?;
    #[cfg(feature = "onnx")]
    if let Some(file) = onnx_in(Path::new(what)) {
        return execute(file, &Options { batch, size }, input);
    }
    reference::execute(model, tensors, input)
}

/// The ONNX file that is meant: this one, or that of a folder which has no network of another kind.
#[cfg(feature = "onnx")]
pub(crate) fn onnx_in(path: &Path) -> Option<PathBuf> {
    let inside = path.join("model.onnx");
    match path.is_dir() {
        true => (inside.is_file() && !path.join(MODEL).exists()).then_some(inside),
        false => path.extension().is_some_and(|extension| extension == "onnx").then(|| path.into()),
    }
}

/// The network whose weights a `.safetensors` file says in its name to have.
pub fn weights_of(path: impl AsRef<Path>) -> Option<&'static str> {
    named_by(path.as_ref())
}

fn named_by(path: &Path) -> Option<&'static str> {
    path.extension().filter(|extension| *extension == "safetensors")?;
    let stem = path.file_stem()?.to_str()?;
    let begins = |name: &&str| {
        let rest = stem.strip_prefix(*name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    NAMES.iter().chain(TENSOR_NAMES).copied().find(begins)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_weights_says_whose_they_are() {
        let named = |path: &str| named_by(Path::new(path));
        assert_eq!(named("/models/resnet18.safetensors"), Some("resnet18"));
        assert_eq!(named("resnet50-11ad3fa6.safetensors"), Some("resnet50"));
        assert_eq!(named("inception_v3_google-0cc3c7bd.safetensors"), Some("inception_v3"));
        for other in ["resnet18.param", "resnet180.safetensors", "my.safetensors", "resnet18"] {
            assert_eq!(named(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_none_of_these_is_named_with_what_there_is() {
        let said = open("lenet.safetensors", None, None, Seeded(1)).unwrap_err().to_string();
        assert!(said.starts_with("no network \"lenet.safetensors\" (have: resnet18, "), "{said}");
    }
}
