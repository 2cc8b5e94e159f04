//! Inputs and outputs that a file declares, before a network is made of it.

use super::fault::{Fault, unsupported};
use super::file::{Dimension, ModelFile, ValueFile, tensors_of_sequence, value_of_optional};
use super::general::stored::{element, read_tensor};
use super::protobuf::Malformed;
use super::read::ReadOptions;
use crate::errors::error::Result;
use crate::files::whole;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use reef_op::tensor::{Array, Element, Spec, Truth};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Most elements of an input that is filled with one value.
const MAX_FILLED: usize = 16;

/// One size of a tensor as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclaredSize {
    /// It is always this one.
    Fixed(usize),
    /// Left open; sizes of the same name are the same. Without a name it is by itself.
    Open(String),
}

/// An input or an output as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredPort {
    /// Its name.
    pub name: String,
    /// Its type, if it is one that is read.
    pub element: Option<Element>,
    /// Its sizes; `None` if the file says nothing about them.
    pub sizes: Option<Vec<DeclaredSize>>,
    /// It is a sequence, whose tensors are inputs or outputs of their own: they have its name with
    /// their places after it, such as `x.0`. Its shape is their number, and its sizes are empty.
    pub is_sequence: bool,
    /// The file lets it be left out. A network that was read always has it.
    pub is_optional: bool,
}

/// Inputs and outputs of a file, in its order; inputs that it has values for are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declared {
    /// Tensors that go in.
    pub inputs: Vec<DeclaredPort>,
    /// Tensors that come out.
    pub outputs: Vec<DeclaredPort>,
}

impl Declared {
    /// With sizes that were chosen in place of open ones. Outputs have those of the same names.
    pub(crate) fn chosen(mut self, options: &ReadOptions) -> Self {
        let one = |(name, sizes): (&String, &Vec<usize>)| match sizes[..] {
            [size] => Some((name.clone(), size)),
            _ => None,
        };
        let mut named: BTreeMap<_, _> = options.shapes.iter().filter_map(one).collect();
        for input in &mut self.inputs {
            input.choose(options, &mut named);
        }
        let all = self.inputs.iter_mut().chain(&mut self.outputs);
        for size in all.filter_map(|port| port.sizes.as_mut()).flatten() {
            if let DeclaredSize::Open(name) = size
                && let Some(&chosen) = named.get(name)
            {
                *size = DeclaredSize::Fixed(chosen);
            }
        }
        self
    }

    /// An input of a few numbers or truth values whose sizes are known, with this value for all of
    /// them.
    pub(crate) fn filled(&self, name: &str, value: u8) -> Option<(String, (Vec<usize>, Array))> {
        let port = self.inputs.iter().find(|port| port.name == name)?;
        let fixed = |size: &DeclaredSize| match size {
            DeclaredSize::Fixed(size) => Some(*size),
            DeclaredSize::Open(_) => None,
        };
        let dims = port.sizes.as_ref()?.iter().map(fixed).collect::<Option<Vec<_>>>()?;
        let count = dims.iter().fold(1usize, |count, &size| count.saturating_mul(size));
        if !(1..=MAX_FILLED).contains(&count) {
            return None;
        }
        let array = match port.element? {
            Element::Bool => Array::Bool(vec![Truth(value); count]),
            Element::I32 => Array::I32(vec![value.into(); count]),
            Element::I64 => Array::I64(vec![value.into(); count]),
            Element::F32 => Array::F32(vec![value.into(); count]),
            _ => return None,
        };
        Some((name.to_owned(), (dims, array)))
    }

    /// Returns whether a request may choose a size.
    pub fn is_open(&self) -> bool {
        let open = |size: &DeclaredSize| matches!(size, DeclaredSize::Open(_));
        let sizes = self.inputs.iter().map(|input| &input.sizes);
        sizes.into_iter().any(|sizes| sizes.as_ref().is_none_or(|sizes| sizes.iter().any(open)))
    }
}

impl DeclaredPort {
    /// Fixes open sizes of an input, and notes those that have names.
    fn choose(&mut self, options: &ReadOptions, named: &mut BTreeMap<String, usize>) {
        let shape = options.shapes.get(&self.name);
        if let (None, Some(shape)) = (&self.sizes, shape) {
            self.sizes = Some(shape.iter().map(|&size| DeclaredSize::Fixed(size)).collect());
        }
        let rank = self.sizes.as_ref().map_or(0, Vec::len);
        for (axis, size) in self.sizes.iter_mut().flatten().enumerate() {
            let DeclaredSize::Open(name) = size else { continue };
            let given = shape.and_then(|shape| shape.get(axis)).copied();
            let given = given.or_else(|| named.get(name).copied());
            let Some(chosen) = given.or(options.usual(axis, rank)) else { continue };
            if !name.is_empty() {
                named.entry(name.clone()).or_insert(chosen);
            }
            *size = DeclaredSize::Fixed(chosen);
        }
    }
}

/// Reads what a file says about its inputs and outputs, with memory of `budget`.
///
/// # Errors
///
/// `Io` if the file can't be read, `Onnx` if it is none, `Memory`.
pub fn declared(path: impl AsRef<Path>, budget: &Budget) -> Result<Declared> {
    let (path, ledger) = (path.as_ref(), Ledger::new(budget));
    let bytes = whole::read(path, &ledger)?;
    of_bytes(&bytes, &path.display().to_string(), &ledger)
}

/// As [`declared`], of the bytes of a file that errors call `name`.
pub(crate) fn declared_bytes(bytes: &[u8], name: &str, budget: &Budget) -> Result<Declared> {
    of_bytes(bytes, name, &Ledger::new(budget))
}

fn of_bytes(bytes: &[u8], name: &str, ledger: &Ledger) -> Result<Declared> {
    let model = ModelFile::read(bytes, ledger).map_err(Fault::from);
    let model = model.map_err(|fault| fault.of(name.into(), ledger))?;
    let Some(graph) = &model.graph else { return Ok(Declared::default()) };
    let stored: HashSet<&str> = graph.initializers.iter().map(|tensor| tensor.name).collect();
    let inputs = graph.inputs.iter().filter(|input| !stored.contains(input.name));
    Ok(Declared {
        inputs: inputs.map(port).collect(),
        outputs: graph.outputs.iter().map(port).collect(),
    })
}

fn port(value: &ValueFile<'_>) -> DeclaredPort {
    let size = |dimension: &Dimension<'_>| match dimension {
        Dimension::Open(name) => DeclaredSize::Open((*name).to_owned()),
        Dimension::Fixed(size) => {
            let fixed = usize::try_from(*size).map(DeclaredSize::Fixed);
            // Negative, but for the -1 that is read as open.
            fixed.unwrap_or(DeclaredSize::Open(String::new()))
        }
    };
    let sizes = value.dims.as_ref().map(|dims| dims.iter().map(size).collect());
    let is_sequence = value.items.is_some();
    DeclaredPort {
        name: value.name.to_owned(),
        element: element(value.element).ok(),
        sizes: if is_sequence { Some(Vec::new()) } else { sizes },
        is_sequence,
        is_optional: value.is_optional,
    }
}

/// Reads the tensors of a file that holds what goes into `port` or comes out of it, as ONNX's test
/// data do: one tensor, or those of a sequence.
///
/// # Errors
///
/// `Onnx` if it is none, `Unsupported` if it is an optional value that is left out.
pub fn read_value(bytes: &[u8], name: &str, port: &DeclaredPort) -> Result<Vec<(Spec, Array)>> {
    let ledger = Ledger::new(&Budget::default());
    let of_file = |why: String| Fault { at: "no value".into(), why }.of(name.into(), &ledger);
    let malformed = |Malformed(why): Malformed| of_file(why);
    let bytes = if port.is_optional {
        let left_out = || of_file(unsupported("an optional value that is left out is"));
        value_of_optional(bytes).map_err(malformed)?.ok_or_else(left_out)?
    } else {
        bytes
    };
    if !port.is_sequence {
        return Ok(vec![read_tensor(bytes, name)?]);
    }
    let tensors = tensors_of_sequence(bytes, &ledger).map_err(malformed)?;
    tensors.iter().map(|tensor| read_tensor(tensor, name)).collect()
}
