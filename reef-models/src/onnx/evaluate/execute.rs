//! From a file and its input to its output.

use super::compute::compute;
use super::operands::{Operands, Values};
use crate::errors::error::{Error, Result};
use crate::files::whole;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use crate::onnx::constant::Constant;
use crate::onnx::fault::Fault;
use crate::onnx::file::{GraphFile, ModelFile};
use crate::onnx::images::{Options, input_sizes, only_input};
use crate::onnx::node::Node;
use crate::onnx::opset::{IMAGE_OPSETS, graph_of};
use std::path::Path;
use std::rc::Rc;

/// Runs the network for images of a file, node by node as the file says.
///
/// # Errors
///
/// `Io` if the file can't be read, `Onnx` if it is none or holds what ONNX doesn't define, `Length`
/// if `input` is not as long as the file's.
pub fn execute(path: impl AsRef<Path>, input: &[f32]) -> Result<Vec<f32>> {
    execute_with(path.as_ref(), &Options::default(), input)
}

/// As [`execute`], with sizes that the file leaves open.
pub(crate) fn execute_with(path: &Path, options: &Options, input: &[f32]) -> Result<Vec<f32>> {
    let file = path.display().to_string();
    let bytes = whole::read(path, &Ledger::new(&Budget::new(u64::MAX)))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    run(&bytes, &file, Some(folder), options, input)
}

/// As [`execute`], of the bytes of a file that has all its weights in it; `name` names it in
/// errors.
///
/// # Errors
///
/// `Onnx`, `Length`.
pub fn execute_bytes(bytes: &[u8], name: &str, input: &[f32]) -> Result<Vec<f32>> {
    run(bytes, name, None, &Options::default(), input)
}

fn run(
    bytes: &[u8],
    file: &str,
    folder: Option<&Path>,
    options: &Options,
    input: &[f32],
) -> Result<Vec<f32>> {
    let ledger = Ledger::new(&Budget::new(u64::MAX)); // its own machine's, at its user's wish
    let named = |fault: Fault| fault.of(file.into(), &ledger);
    let file = ModelFile::read(bytes, &ledger).map_err(Fault::from).map_err(named)?;
    let graph = graph_of(&file, &IMAGE_OPSETS).map_err(named)?;
    let image = only_input(graph).map_err(named)?;
    let at_image = |why| named(Fault::at_input(image.name, why));
    let dims = input_sizes(image, options).map_err(at_image)?;
    let want = dims.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
    let want = want.ok_or_else(|| at_image(format!("a tensor of {dims:?} is out of range")))?;
    if input.len() != want {
        return Err(Error::Length { what: "input".into(), given: input.len(), want });
    }
    let mut values = Values::new(graph, folder, &ledger);
    let image_values = List::copied(input, &ledger);
    let image_values = image_values.map_err(|why| at_image(why.into()))?;
    values.insert(image.name, Rc::new(Constant::floats(dims, image_values)));
    nodes(graph, values).map_err(named)
}

/// The output after all nodes.
fn nodes<'a>(graph: &'a GraphFile<'a>, mut values: Values<'a>) -> Result<Vec<f32>, Fault> {
    for file in &graph.nodes {
        let node = Node::new(file, values.folder, values.ledger);
        let made = compute(&Operands { node: &node, values: &values });
        let made = made.map_err(|why| Fault::at_node(node.name(), file.op, why))?;
        values.insert(file.outputs.first().copied().unwrap_or_default(), made);
    }
    let output = graph.outputs.first().map(|output| output.name).unwrap_or_default();
    let fault = |why| Fault { at: format!("output {output:?}"), why };
    let floats = values.get(output).and_then(|value| Ok(value.as_floats()?.to_vec()));
    floats.map_err(fault)
}
