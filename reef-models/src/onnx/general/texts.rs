//! Tensors of texts, which hold places in a list of all texts of the file.
//!
//! The list is made before any node is read, so that it is the same whatever sizes inputs have.

use super::stored::array;
use crate::errors::error;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::model::texts::Texts;
use crate::onnx::constant;
use crate::onnx::fault::{Fault, Result, beyond, remedy, unsupported};
use crate::onnx::file::{AttributeFile, FunctionFile, GraphFile, NodeFile, TensorFile};
use crate::onnx::protobuf::Malformed;
use crate::tensors::value::{TextOrigin, Value};
use reef_op::tensor::{Array, Element, Spec};
use std::path::Path;

/// `TensorProto.DataType` of texts.
pub(super) const STRING: i64 = 8;

/// Text in place of those that an encoder does not know, unless its node says another one.
pub(crate) const UNUSED: &str = "_Unused";

/// Attributes with texts that tensors hold.
const ATTRIBUTES: [&str; 9] = [
    "cats_strings",
    "classes_strings",
    "classlabels_strings",
    "default_string",
    "keys_strings",
    "pool_strings",
    "value_string",
    "value_strings",
    "values_strings",
];

/// Bytes that are charged for a text besides twice its own.
const TEXT: u64 = 160;
/// Bytes that a text of an attribute takes while its place is found.
const PLACE: u64 = 56;

/// All texts that tensors of a file may hold, but for those of requests.
pub(super) fn texts_of(
    graph: &GraphFile<'_>,
    functions: &[FunctionFile<'_>],
    ledger: &Ledger,
) -> Result<Texts> {
    let mut found = Search { texts: Texts::default(), ledger };
    found.graph(graph)?;
    for function in functions {
        found.nodes(&function.nodes)?;
        function.defaults.iter().try_for_each(|attribute| found.attribute(attribute))?;
    }
    if !found.texts.all().is_empty() {
        found.add(UNUSED.as_bytes())?;
    }
    Ok(found.texts)
}

struct Search<'l> {
    texts: Texts,
    ledger: &'l Ledger,
}

impl Search<'_> {
    fn graph(&mut self, graph: &GraphFile<'_>) -> Result<()> {
        graph.initializers.iter().try_for_each(|tensor| self.tensor(tensor))?;
        self.nodes(&graph.nodes)
    }

    fn nodes(&mut self, nodes: &[NodeFile<'_>]) -> Result<()> {
        let mut attributes = nodes.iter().flat_map(|node| node.attributes.iter());
        attributes.try_for_each(|attribute| self.attribute(attribute))
    }

    fn attribute(&mut self, attribute: &AttributeFile<'_>) -> Result<()> {
        if ATTRIBUTES.contains(&attribute.name) {
            self.ledger.keep(PLACE * attribute.texts.len() as u64)?;
            attribute.texts.iter().try_for_each(|text| self.add(text))?;
            attribute.text.iter().try_for_each(|text| self.add(text))?;
        }
        attribute.tensor.iter().try_for_each(|tensor| self.tensor(tensor))?;
        attribute.graph.iter().try_for_each(|graph| self.graph(graph))
    }

    fn tensor(&mut self, tensor: &TensorFile<'_>) -> Result<()> {
        let mut texts = tensor.texts.iter().filter(|_| tensor.element == STRING);
        texts.try_for_each(|text| self.add(text))
    }

    fn add(&mut self, text: &[u8]) -> Result<()> {
        let Ok(text) = std::str::from_utf8(text) else { return Ok(()) }; // its reader refuses it
        if self.texts.known_place(text).is_none() {
            self.ledger.keep(TEXT + 2 * text.len() as u64)?;
            self.texts.add(text);
        }
        Ok(())
    }
}

/// The place of a text of the file.
pub(crate) fn place_of(texts: &Texts, text: &str) -> Result<i64> {
    let place = texts.known_place(text);
    place
        .ok_or_else(|| beyond("texts of a node must be its own, and not of the function around it"))
}

/// Decodes a tensor of numbers, or one of texts as their places. The last value says if it is of
/// texts.
pub(crate) fn numbers_or_places(
    tensor: &TensorFile<'_>,
    folder: Option<&Path>,
    ledger: &Ledger,
    texts: &Texts,
) -> Result<(Spec, Array, bool)> {
    if tensor.element != STRING {
        let (spec, array) = array(tensor, folder, ledger)?;
        return Ok((spec, array, false));
    }
    let dims = dims_of(tensor)?;
    let _reading = ledger.charge(8 * tensor.texts.len() as u64)?;
    let mut places = Vec::with_capacity(tensor.texts.len());
    for text in tensor.texts.iter() {
        places.push(place_of(texts, utf8(text)?)?);
    }
    Ok((Spec { element: Element::I64, dims }, Array::I64(places), true))
}

/// Sizes of a tensor of texts, which must have as many.
fn dims_of(tensor: &TensorFile<'_>) -> Result<Vec<usize>> {
    let dims = constant::dims(&tensor.dims)?;
    let (have, want) = (tensor.texts.len(), constant::elements(&dims)?);
    if have == want { Ok(dims) } else { Err(format!("{have} values for a tensor of {dims:?}")) }
}

fn utf8(text: &[u8]) -> Result<&str> {
    std::str::from_utf8(text).map_err(|_| "text that isn't UTF-8".into())
}

/// Reads a file that holds a single tensor (`TensorProto`), as ONNX's test data do, if it is of
/// texts: its sizes and the texts.
///
/// # Errors
///
/// `Onnx` if it is none.
pub fn read_texts(bytes: &[u8], name: &str) -> error::Result<Option<(Vec<usize>, Vec<String>)>> {
    let ledger = Ledger::new(&Budget::default());
    let read = TensorFile::read(bytes, &ledger).map_err(|Malformed(why)| why);
    let read = read.and_then(|tensor| {
        if tensor.element != STRING {
            return Ok(None);
        }
        let texts = tensor.texts.iter().map(|text| utf8(text).map(String::from));
        Ok(Some((dims_of(&tensor)?, texts.collect::<Result<Vec<_>>>()?)))
    });
    read.map_err(|why| Fault { at: "no tensor".into(), why }.of(name.into(), &ledger))
}

/// Operators of ONNX that move the elements of their first operand.
pub(super) const MOVING: &[&str] = &[
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Origin of the texts in all results of a node, if it moves those of its operands.
///
/// # Errors
///
/// Words about texts that it would take for numbers.
pub(super) fn moved(
    node: &NodeFile<'_>,
    operands: &[Option<&Value>],
) -> Result<Option<TextOrigin>> {
    let origins: Vec<_> = operands.iter().map(|operand| operand.and_then(|x| x.texts)).collect();
    let Some(first) = origins.iter().position(Option::is_some) else { return Ok(None) };
    let is_first = first == 0 && origins.iter().flatten().count() == 1;
    match (node.domain, node.op) {
        ("ai.onnx.ml", "CategoryMapper" | "LabelEncoder" | "OneHotEncoder") if is_first => Ok(None),
        ("" | "ai.onnx", "Shape" | "Size" | "TfIdfVectorizer") if is_first => Ok(None),
        ("ai.onnx.ml", "ArrayFeatureExtractor") if is_first => Ok(origins[0]),
        ("" | "ai.onnx", op) if is_first && MOVING.contains(&op) => Ok(origins[0]),
        ("" | "ai.onnx", "Concat") if origins.iter().all(Option::is_some) => Ok(joined(&origins)),
        ("" | "ai.onnx", "Where") if first == 1 && origins[1..].iter().all(Option::is_some) => {
            Ok(joined(&origins))
        }
        // Two texts of requests that the file does not have would have one place.
        ("" | "ai.onnx", "Equal")
            if origins.iter().all(Option::is_some) && origins.contains(&Some(TextOrigin::File)) =>
        {
            Ok(None)
        }
        (domain, op) => Err(match remedy(domain, op) {
            Some(remedy) => beyond(remedy),
            None => unsupported(&format!("texts as operand {first} of {op} are")),
        }),
    }
}

/// Origin of texts of all these operands: of a request, if any of them is.
fn joined(origins: &[Option<TextOrigin>]) -> Option<TextOrigin> {
    let of_request = Some(TextOrigin::Request);
    if origins.contains(&of_request) { of_request } else { Some(TextOrigin::File) }
}
