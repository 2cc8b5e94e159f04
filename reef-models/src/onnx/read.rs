//! From the bytes of a file to a network.

use super::fault::Fault;
use super::file::{Dimension, GraphFile, ModelFile, NodeFile, ValueFile};
use super::general::options::{TensorOptions, usual};
use super::general::stored::array;
use super::general::walk::{Walk, Walked};
use super::images::{Options, ends_in_images, has_convolutions, image_of, only_input};
use super::node::name_of;
use super::opset::{OPSETS, graph_of};
use crate::errors::error::{Error, Result};
use crate::files::folder::MODEL;
use crate::files::whole;
use crate::ir::recognise::reading::{Recognised, Refusal};
use crate::memory::budget::{Budget, Exhausted};
use crate::memory::ledger::Ledger;
use crate::model::image_model::ImageModel;
use crate::model::params::Params;
use crate::tensors::model::TensorModel;
use reef_op::MAX_SIZE;
use reef_op::tensor::Array;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most readings of a file for sizes of its constants.
const MAX_FITS: usize = 48;

/// `TensorProto.DataType` of integers of 64 bits.
const INT64: i64 = 7;

/// Kernels that a network may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kernels {
    /// Kernels for images where the network can be expressed so, for tensors otherwise.
    #[default]
    Any,
    Images,
    Tensors,
}

/// Sizes that are tried for open ones if the network can't have sizes of 1: windows must have room,
/// and what is halved and doubled again must be a multiple.
const GUESSES: [usize; 4] = [64, 224, 512, 16];

/// Sizes that a file leaves open, and other choices of the caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadOptions {
    pub(crate) kernels: Kernels,
    pub(crate) size: Option<usize>,
    pub(crate) batch: Option<usize>,
    /// Sizes of inputs by their names, or single sizes by the file's names of them.
    pub(crate) shapes: BTreeMap<String, Vec<usize>>,
    /// Values of inputs, whose sizes are the network's.
    pub(crate) values: BTreeMap<String, (Vec<usize>, Array)>,
    /// Inputs of which [`values`](Self::values) have become constants stay inputs, which nothing
    /// reads.
    pub(crate) keeps_inputs: bool,
    /// Iterations after which loops that data end have ended.
    pub(crate) loop_bound: Option<usize>,
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
    Image(ImageModel, Params),
    Tensors(TensorModel),
}

/// Reads the file at `path`. Weights that another file keeps are read from it, if it is in the same
/// folder or below.
///
/// # Errors
///
/// `Io` if the file can't be read; the errors of [`read`].
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
/// `Onnx` if it is none, `Unsupported` if it holds what can't be expressed, `Unbound` if values of
/// inputs have to be given, `Memory` if it takes more than `budget` has.
pub(crate) fn read(file: &File<'_>, options: &ReadOptions, budget: &Budget) -> Result<Imported> {
    file.network(options, &Ledger::new(budget))
}

impl File<'_> {
    fn network(&self, options: &ReadOptions, ledger: &Ledger) -> Result<Imported> {
        let of_file = |fault: Fault| fault.of(self.shown.into(), ledger);
        let file = ModelFile::read(self.bytes, ledger).map_err(Fault::from).map_err(of_file)?;
        let image = options.images_of(&file).map(|options| image_of(&file, &options));
        let image = match image.transpose().map(|shape| shape.filter(|shape| !shape.contains(&0))) {
            Err(fault) if options.kernels == Kernels::Images => return Err(of_file(fault)),
            image => image.unwrap_or_default(),
        };
        let walked = self.walk(&file, options, ledger)?;
        if let Some(shape) = image {
            match walked.images(shape, ledger) {
                Ok(recognised) => {
                    let sizes = walked.port_sizes();
                    drop(walked); // its weights go over into the network
                    let (model, params) = self.image(recognised, ledger).map_err(of_file)?;
                    let model = model.with_ports(port_names(&file));
                    let model = match sizes {
                        Some(sizes) => model.with_sizes(sizes),
                        None => model,
                    };
                    return Ok(Imported::Image(model, params));
                }
                Err(refusal)
                    if options.kernels == Kernels::Images || ledger.refusal().is_some() =>
                {
                    return Err(of_file(fault_of(refusal, &file)));
                }
                Err(_) => {}
            }
        }
        walked.tensors(self.name).map(Imported::Tensors).map_err(of_file)
    }

    /// The network for images of what was recognised.
    fn image(
        &self,
        recognised: Recognised,
        ledger: &Ledger,
    ) -> Result<(ImageModel, Params), Fault> {
        let (net, output) = recognised.filled(ledger).map_err(Fault::of_graph)?;
        let short = |why: Exhausted| Fault::of_graph(why.to_string());
        let (net, output) = net.fuse(output, ledger).map_err(short)?;
        let (model, params) = net.emit(self.name, output, ledger).map_err(short)?;
        let unsound = |(at, problem): (String, crate::graph::problem::Problem)| {
            Fault::of_graph(format!("its schedule is unsound: {at}: {problem}"))
        };
        model.check().map_err(unsound)?;
        Ok((model, params))
    }

    /// All operations of the file. Inputs whose values decide about shapes become constants, if
    /// their values were given.
    fn walk<'a>(
        &'a self,
        file: &'a ModelFile<'a>,
        options: &ReadOptions,
        ledger: &'a Ledger,
    ) -> Result<Walked<'a>> {
        let of_file = |fault: Fault| fault.of(self.shown.into(), ledger);
        let graph = graph_of(file, &OPSETS).map_err(of_file)?;
        let mut open = options.open_sizes(&graph.inputs);
        let first = self.walk_for(file, graph, options, &mut open, ledger);
        let Err(error @ (Error::Onnx { .. } | Error::Unsupported { .. })) = first else {
            return first;
        };
        for guess in GUESSES {
            if ledger.refusal().is_some() || !open.guessed.get() {
                break;
            }
            open = TensorOptions { guess, ..options.open_sizes(&graph.inputs) };
            if let Ok(walked) = self.walk_for(file, graph, options, &mut open, ledger) {
                return Ok(walked);
            }
        }
        let may_fit = open.guessed.get() && matches!(error, Error::Onnx { .. });
        let mut left = if may_fit { MAX_FITS } else { 0 };
        for guess in [1].into_iter().chain(GUESSES) {
            let open = TensorOptions { guess, ..options.open_sizes(&graph.inputs) };
            if let Some(walked) = self.fitted(file, graph, options, open, ledger, &mut left) {
                return Ok(walked);
            }
        }
        // The first size may be one of samples or of rows, and not of a batch.
        for guess in GUESSES.into_iter().filter(|_| may_fit) {
            if ledger.refusal().is_some() {
                break;
            }
            let sizes = options.open_sizes(&graph.inputs);
            let mut open = TensorOptions { guess, first: guess, ..sizes };
            if let Ok(walked) = self.walk_for(file, graph, options, &mut open, ledger) {
                return Ok(walked);
            }
        }
        Err(error)
    }

    /// All operations of the file for sizes that the constants of its nodes want: where a node
    /// can't have the guess for an open size, sizes of its constants are tried, as long as one of
    /// them brings the reader to a later node, and `left` more readings are allowed.
    fn fitted<'a>(
        &'a self,
        file: &'a ModelFile<'a>,
        graph: &'a GraphFile<'a>,
        options: &ReadOptions,
        mut open: TensorOptions,
        ledger: &'a Ledger,
        left: &mut usize,
    ) -> Option<Walked<'a>> {
        let mut try_one = |open: &TensorOptions| {
            if *left == 0 || ledger.refusal().is_some() {
                return None;
            }
            *left -= 1;
            let made = self.walk_for(file, graph, options, &mut open.clone(), ledger);
            Some(made.map_err(|error| failed_node(graph, &error)))
        };
        let mut at = match try_one(&open)? {
            Ok(walked) => return Some(walked),
            Err(at) => at?,
        };
        loop {
            let sizes = sizes_of_constants(graph, &graph.nodes[at], self.folder, ledger);
            let inputs = graph.inputs.iter().flat_map(|input| {
                let rank = input.dims.as_ref().map_or(0, |dims| dims.len());
                (1..rank).map(move |axis| (input, axis))
            });
            let mut later: Option<(usize, TensorOptions)> = None;
            for (input, axis) in inputs {
                for &size in &sizes {
                    let Some(tried) = open.with_size(input, axis, size) else { break };
                    let most = later.as_ref().map_or(at, |(most, _)| *most);
                    match try_one(&tried)? {
                        Ok(walked) => return Some(walked),
                        Err(Some(other)) if other > most => later = Some((other, tried)),
                        Err(_) => {}
                    }
                }
                if later.is_some() {
                    break;
                }
            }
            (at, open) = later?;
        }
    }

    /// All operations of the file for these sizes.
    fn walk_for<'a>(
        &'a self,
        file: &'a ModelFile<'a>,
        graph: &'a GraphFile<'a>,
        options: &ReadOptions,
        open: &mut TensorOptions,
        ledger: &'a Ledger,
    ) -> Result<Walked<'a>> {
        loop {
            let mut walk = Walk::new(file, self.folder, open, ledger);
            let fault = match walk.graph(graph) {
                Ok(walked) => return Ok(walked),
                Err(fault) => fault,
            };
            let inputs = std::mem::take(&mut walk.unbound);
            if inputs.is_empty() {
                return Err(fault.of(self.shown.into(), ledger));
            }
            if !open.bind(&inputs, &options.values) {
                return Err(Error::Unbound { file: self.shown.into(), at: fault.at, inputs });
            }
        }
    }
}

/// Number of the node that an error is about; `None` if it is about none of the graph's own.
fn failed_node(graph: &GraphFile<'_>, error: &Error) -> Option<usize> {
    let Error::Onnx { at, .. } = error else { return None };
    let is_it =
        |node: &NodeFile<'_>| Fault::at_node(name_of(node), node.op, String::new()).at == *at;
    graph.nodes.iter().position(is_it)
}

/// Sizes that the constants of a node may want: their own, times the groups of a convolution, and
/// the product of few integers, as of a `Reshape`.
fn sizes_of_constants(
    graph: &GraphFile<'_>,
    node: &NodeFile<'_>,
    folder: Option<&Path>,
    ledger: &Ledger,
) -> Vec<usize> {
    let group = node.attributes.iter().find(|attribute| attribute.name == "group");
    let group = group.and_then(|attribute| attribute.int).unwrap_or(1);
    let read: HashSet<&str> = node.inputs.iter().copied().collect();
    let mut sizes = Vec::new();
    for tensor in graph.initializers.iter().filter(|tensor| read.contains(tensor.name)) {
        for &size in tensor.dims.iter() {
            sizes.extend([size, size.saturating_mul(group)]);
        }
        let is_list = tensor.element == INT64 && matches!(tensor.dims[..], [0..=8]);
        if is_list && let Ok((_, values)) = array(tensor, folder, ledger) {
            let known = values.values().to_i64().into_iter().filter(|&size| size > 0);
            sizes.push(known.fold(1, i64::saturating_mul));
        }
    }
    let sound = |size: i64| usize::try_from(size).ok().filter(|size| (2..=MAX_SIZE).contains(size));
    let mut sizes: Vec<usize> = sizes.into_iter().filter_map(sound).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Names of the input and the output of a network for images.
fn port_names(file: &ModelFile<'_>) -> [Arc<str>; 2] {
    let graph = file.graph.as_ref();
    let input = graph.and_then(|graph| only_input(graph).ok());
    let output = graph.and_then(|graph| graph.outputs.first());
    [input, output].map(|port| port.map_or("", |port| port.name).into())
}

/// Reason why a file is not a network for images, with the node.
fn fault_of(refusal: Refusal, file: &ModelFile<'_>) -> Fault {
    let Refusal { node, why } = refusal;
    let graph = file.graph.as_ref();
    match node {
        Some(name) => {
            let nodes = graph.into_iter().flat_map(|graph| &graph.nodes);
            let op =
                nodes.into_iter().find(|node| name_of(node) == name).map_or("", |node| node.op);
            Fault::at_node(&name, op, why)
        }
        None => match graph.map(|graph| &*graph.outputs).unwrap_or_default() {
            [output] => Fault { at: format!("output {:?}", output.name), why },
            _ => Fault::of_graph(why),
        },
    }
}

impl ReadOptions {
    /// Sizes of the image of a network for images; `None` if other shapes are asked for than it
    /// can have.
    pub(crate) fn images(&self) -> Option<Options> {
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

    /// As [`images`](Self::images), if a file may become a network for images.
    fn images_of(&self, file: &ModelFile<'_>) -> Option<Options> {
        match self.kernels {
            Kernels::Tensors => None,
            Kernels::Images => self.images(),
            Kernels::Any => {
                // Chosen sizes are refused as a network for images refuses them.
                let is_chosen =
                    self.batch.is_some() || self.size.is_some() || !self.shapes.is_empty();
                let is_worth_it = is_chosen || has_convolutions(file);
                self.images().filter(|_| is_worth_it && !ends_in_images(file))
            }
        }
    }

    /// Size of an open axis of an input of `rank` sizes, by its place.
    pub(crate) fn usual(&self, axis: usize, rank: usize) -> Option<usize> {
        usual(self.batch, self.size, axis, rank)
    }

    /// Sizes by names of inputs and, where they are known for one of these, by names of sizes: the
    /// same name stands for the same size.
    fn open_sizes(&self, inputs: &[ValueFile<'_>]) -> TensorOptions {
        let mut shapes = self.shapes.clone();
        shapes.extend(self.values.iter().map(|(name, (dims, _))| (name.clone(), dims.clone())));
        for input in inputs {
            let (given, dims) = (shapes.get(input.name).cloned(), input.dims.as_deref());
            let dims = dims.unwrap_or_default();
            for (axis, dim) in dims.iter().enumerate() {
                let size = match &given {
                    Some(given) => given.get(axis).copied(),
                    None => self.usual(axis, dims.len()),
                };
                if let (Dimension::Open(name), Some(size)) = (dim, size)
                    && !name.is_empty()
                {
                    shapes.entry((*name).to_owned()).or_insert_with(|| vec![size]);
                }
            }
        }
        TensorOptions {
            shapes,
            batch: self.batch,
            size: self.size,
            keeps_inputs: self.keeps_inputs,
            loop_bound: self.loop_bound,
            ..TensorOptions::default()
        }
    }
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
