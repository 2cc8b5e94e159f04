//! From the bytes of a file to a network.

use super::fault::Fault;
use super::file::{Dimension, GraphFile, ModelFile};
use super::general::options::TensorOptions;
use super::general::walk::Walk;
use super::walk::{self, Options};
use crate::errors::error::{Error, Result};
use crate::files::folder::MODEL;
use crate::files::whole;
use crate::memory::budget::{Budget, Exhausted};
use crate::memory::ledger::Ledger;
use crate::model::params::Params;
use crate::model::picture_model::PictureModel;
use crate::tensors::model::TensorModel;
use reef_core::tensor::Array;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Versions of the default operator set whose files are read.
pub const OPSETS: RangeInclusive<i64> = 7..=24;
/// Those of them whose files may become networks for pictures.
pub(super) const PICTURE_OPSETS: RangeInclusive<i64> = 13..=21;

/// Kernels that a network may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kernels {
    /// Those for pictures where the network can be expressed so, those for tensors otherwise.
    #[default]
    Any,
    Pictures,
    Tensors,
}

/// What a file leaves open, and what else the caller chooses.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadOptions {
    pub(crate) kernels: Kernels,
    pub(crate) size: Option<usize>,
    pub(crate) batch: Option<usize>,
    /// Sizes of inputs by their names, or single sizes by the file's names of them.
    pub(crate) shapes: BTreeMap<String, Vec<usize>>,
    /// Values of inputs, whose sizes are the network's.
    pub(crate) values: BTreeMap<String, (Vec<usize>, Array)>,
}

/// A file that is read.
pub(crate) struct File<'a> {
    pub(crate) bytes: &'a [u8],
    /// Name of the network.
    pub(crate) name: &'a str,
    /// Name of the file in errors.
    pub(crate) shown: &'a str,
    /// Folder of files that keep weights.
    pub(crate) folder: Option<&'a Path>,
}

/// A network that was read, with its weights.
pub(crate) enum Imported {
    Picture(PictureModel, Params),
    Tensors(TensorModel),
}

/// Reads the file at `path`. Weights that another file keeps are read from it, if it is in the same
/// folder or below.
///
/// # Errors
///
/// `Io` if the file can't be read; those of [`read`].
pub(crate) fn read_file(path: &Path, options: &ReadOptions, budget: &Budget) -> Result<Imported> {
    let ledger = Ledger::new(budget);
    let bytes = whole::read(path, &ledger)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let shown = path.display().to_string();
    let file = File { bytes: &bytes, name: &name, shown: &shown, folder: path.parent() };
    file.network(options, &ledger)
}

/// Reads the bytes of a file.
///
/// # Errors
///
/// `Onnx` if it is none or holds what can't be expressed, `Unbound` if values of inputs have to be
/// given, `Memory` if it takes more than `budget` has.
pub(crate) fn read(file: &File<'_>, options: &ReadOptions, budget: &Budget) -> Result<Imported> {
    file.network(options, &Ledger::new(budget))
}

impl File<'_> {
    fn network(&self, options: &ReadOptions, ledger: &Ledger) -> Result<Imported> {
        let of_file = |fault: Fault| fault.of(self.shown.into(), ledger);
        let file = ModelFile::read(self.bytes, ledger).map_err(Fault::from).map_err(of_file)?;
        if let Some(pictures) = options.pictures_of(&file) {
            match self.pictures(&file, &pictures, ledger).map_err(of_file) {
                Ok((model, params)) if options.fits(&model) => {
                    return Ok(Imported::Picture(model, params));
                }
                Ok(_) => {}
                Err(Error::Onnx { .. }) if options.kernels == Kernels::Any => {}
                Err(other) => return Err(other),
            }
        }
        self.tensors(&file, options, ledger).map(Imported::Tensors)
    }

    /// The network for pictures that the file holds.
    fn pictures(
        &self,
        file: &ModelFile<'_>,
        options: &Options,
        ledger: &Ledger,
    ) -> Result<(PictureModel, Params), Fault> {
        let graph = graph_of(file, &PICTURE_OPSETS)?;
        let (net, output) = walk::walk(graph, self.folder, options, ledger)?;
        let short = |why: Exhausted| Fault::of_graph(why.to_string());
        let (net, output) = net.fuse(output, ledger).map_err(short)?;
        let (model, params) = net.emit(self.name, output, ledger).map_err(short)?;
        let unsound = |(at, problem): (String, crate::graph::problem::Problem)| {
            Fault::of_graph(format!("its schedule is unsound: {at}: {problem}"))
        };
        model.check().map_err(unsound)?;
        Ok((model, params))
    }

    /// The network of tensors that the file holds.
    fn tensors(
        &self,
        file: &ModelFile<'_>,
        options: &ReadOptions,
        ledger: &Ledger,
    ) -> Result<TensorModel> {
        let of_file = |fault: Fault| fault.of(self.shown.into(), ledger);
        let graph = graph_of(file, &OPSETS).map_err(of_file)?;
        let mut tensors = options.tensors();
        loop {
            let mut walk = Walk::new(file, self.folder, &tensors, ledger);
            let fault = match walk.graph(graph, self.name) {
                Ok(model) => return Ok(model),
                Err(fault) => fault,
            };
            let inputs = std::mem::take(&mut walk.unbound);
            if inputs.is_empty() {
                return Err(of_file(fault));
            }
            if !tensors.bind(&inputs, &options.values) {
                return Err(Error::Unbound { file: self.shown.into(), at: fault.at, inputs });
            }
        }
    }
}

impl ReadOptions {
    /// Sizes of the picture of a network for pictures; `None` if other shapes are asked for than it
    /// can have.
    pub(crate) fn pictures(&self) -> Option<Options> {
        let mut each = self.shapes.values();
        match (each.next().map(Vec::as_slice), each.next()) {
            (None, _) => Some(Options { batch: self.batch, size: self.size }),
            (Some(&[batch, _]), None) => Some(Options { batch: Some(batch), size: None }),
            (Some(&[batch, _, rows, columns]), None) => {
                Some(Options { batch: Some(batch), size: (rows == columns).then_some(rows) })
            }
            _ => None,
        }
    }

    /// As [`pictures`](Self::pictures), if a file may become a network for pictures.
    fn pictures_of(&self, file: &ModelFile<'_>) -> Option<Options> {
        match self.kernels {
            Kernels::Tensors => None,
            Kernels::Pictures => self.pictures(),
            Kernels::Any => self.pictures().filter(|_| !ends_in_pictures(file)),
        }
    }

    /// Whether the input has the sizes that are asked for: others than squares can't be asked for,
    /// but the file may say them.
    fn fits(&self, model: &PictureModel) -> bool {
        let have = model.input().shape();
        self.shapes.values().all(|sizes| sizes[..] == have[..sizes.len().min(4)])
    }

    fn tensors(&self) -> TensorOptions {
        let mut shapes = self.shapes.clone();
        shapes.extend(self.values.iter().map(|(name, (dims, _))| (name.clone(), dims.clone())));
        TensorOptions { shapes, batch: self.batch, size: self.size, values: BTreeMap::new() }
    }
}

/// The graph of a file whose operators are known.
pub(super) fn graph_of<'f, 'a>(
    file: &'f ModelFile<'a>,
    opsets: &RangeInclusive<i64>,
) -> Result<&'f GraphFile<'a>, Fault> {
    let graph = file.graph.as_ref().ok_or_else(|| Fault::no_file("it has no graph".into()))?;
    let opset = file.opset.unwrap_or_default();
    if !opsets.contains(&opset) {
        let (least, most) = (opsets.start(), opsets.end());
        return Err(Fault::of_graph(format!(
            "operator set {opset}, possible are {least} to {most}"
        )));
    }
    Ok(graph)
}

/// Whether an output has several rows or columns, as the file declares it: no network for pictures
/// has.
fn ends_in_pictures(file: &ModelFile<'_>) -> bool {
    let outputs = file.graph.iter().flat_map(|graph| &graph.outputs);
    let several = |dims: &[Dimension<'_>]| match dims {
        [_, _, sides @ ..] => sides.iter().any(|side| matches!(side, Dimension::Fixed(2..))),
        _ => false,
    };
    outputs.filter_map(|output| output.dims.as_deref()).any(several)
}

/// The ONNX file that a path means: this one, or that of a folder which has no network of another
/// kind.
pub fn file_of(path: impl AsRef<Path>) -> Option<PathBuf> {
    let path = path.as_ref();
    if path.is_dir() {
        let inside = path.join("model.onnx");
        return (inside.is_file() && !path.join(MODEL).exists()).then_some(inside);
    }
    path.extension().is_some_and(|extension| extension == "onnx").then(|| path.into())
}
