//! Kernel nodes of graphs.

use super::caller::Caller;
use super::reader::Reader;
use crate::driver::INVALID_HANDLE;
use crate::state::lock::lock;
use reef_remote_calls::{ADD_NODE, KernelNode, Kind, MAX_PARAMS_LEN, SET_EXEC_NODE, SET_NODE};
use reef_wire::{Error, Hot, Result};

/// `CUDA_KERNEL_NODE_PARAMS`, second version.
#[repr(C)]
struct NodeParams {
    function: usize,
    sizes: [u32; 7],
    params: usize,
    extra: usize,
    kernel: usize,
    context: usize,
}

/// Adds a kernel node, or changes one.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn kernel_node(caller: &mut Caller, body: &[u8]) -> Result<u32> {
    let (node, rest) = KernelNode::split(body)?;
    let mut rest = Reader(rest);
    let mut after = Vec::new();
    for _ in 0..node.after.get() {
        after.push(rest.word()?);
    }
    let given = rest.0;
    if given.len() > MAX_PARAMS_LEN {
        return Err(Error::Protocol(format!("node: {} bytes of parameters", given.len())));
    }
    let shared = caller.shared.clone();
    let get = |kind, id| lock(&shared.handles).get(kind, id);
    let after: Result<Vec<usize>, u32> = after.into_iter().map(|id| get(Kind::Node, id)).collect();
    let function = match get(Kind::Function, node.function.get()) {
        Ok(0) => Err(INVALID_HANDLE),
        other => other,
    };
    let (function, after) = match (function, after) {
        (Ok(function), Ok(after)) => (function, after),
        (Err(code), _) | (_, Err(code)) => return Ok(code),
    };
    let layout = caller.layouts.get(&node.function.get());
    caller.params.set(given, layout);
    let extra = caller.params.extra();
    let (params, extra) = match layout {
        Some(_) => (caller.params.places(), 0),
        None => (0, extra.as_ptr() as usize),
    };
    let sizes = [
        node.grid_x,
        node.grid_y,
        node.grid_z,
        node.block_x,
        node.block_y,
        node.block_z,
        node.shared,
    ]
    .map(|size| size.get());
    let params = NodeParams { function, sizes, params, extra, kernel: 0, context: 0 };
    let params = &raw const params as usize;
    let functions = &shared.driver.functions;
    match node.what.get() {
        ADD_NODE => {
            let graph = match get(Kind::Graph, node.of.get()) {
                Ok(graph) => graph,
                Err(code) => return Ok(code),
            };
            let mut new = 0_usize;
            let place = &raw mut new as usize;
            let (list, count) = (after.as_ptr() as usize, after.len());
            // SAFETY: a place for a handle, handles of the driver's, and parameters as it has
            // described them.
            let code =
                unsafe { functions.add_kernel_node.call([place, graph, list, count, params]) };
            if code == 0 {
                let mut handles = lock(&shared.handles);
                if let Err(code) = handles.insert(Kind::Node, node.node.get(), new, node.of.get()) {
                    return Ok(code);
                }
            }
            Ok(code)
        }
        SET_NODE => match get(Kind::Node, node.node.get()) {
            // SAFETY: as above.
            Ok(node) => Ok(unsafe { functions.set_kernel_node.call([node, params]) }),
            Err(code) => Ok(code),
        },
        SET_EXEC_NODE => {
            let found = (get(Kind::Exec, node.of.get()), get(Kind::Node, node.node.get()));
            match found {
                (Ok(exec), Ok(node)) => {
                    // SAFETY: as above.
                    Ok(unsafe { functions.set_exec_kernel_node.call([exec, node, params]) })
                }
                (Err(code), _) | (_, Err(code)) => Ok(code),
            }
        }
        what => Err(Error::Protocol(format!("node: operation {what}"))),
    }
}
