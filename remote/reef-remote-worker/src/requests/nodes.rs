//! Nodes of graphs that are added or changed, and those that are kernels.

use super::caller::Caller;
use crate::driver::Function;
use crate::reader::Reader;
use crate::state::lock::lock;
use crate::state::shared::Shared;
use reef_cuda_abi::codes::INVALID_HANDLE;
use reef_cuda_abi::layouts::{KernelNodeParams, KernelNodeParamsV1};
use reef_remote_calls::{ADD_NODE, KernelNode, Kind, MAX_PARAMS_LEN, SET_EXEC_NODE, SET_NODE};
use reef_wire::{Error, Hot, Result};

/// Adds a kernel node, or changes one.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn kernel_node(caller: &mut Caller, body: &[u8]) -> Result<u32> {
    let (node, rest) = KernelNode::split(body)?;
    let mut rest = Reader(rest);
    let after = rest.words(node.after.get())?;
    let given = rest.0;
    if given.len() > MAX_PARAMS_LEN {
        return Err(Error::Protocol(format!("node: {} bytes of parameters", given.len())));
    }
    let shared = caller.shared.clone();
    let found = lock(&shared.handles).function(node.function.get());
    let (function, layout) = match found {
        Ok((0, _)) => return Ok(INVALID_HANDLE),
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    caller.params.set(given, layout.as_deref());
    let extra = caller.params.extra();
    let (params, extra) = match layout {
        Some(_) => (caller.params.places(), 0),
        None => (0, extra.as_ptr() as usize),
    };
    let grid = [node.grid_x.get(), node.grid_y.get(), node.grid_z.get()];
    let block = [node.block_x.get(), node.block_y.get(), node.block_z.get()];
    let shared_bytes = node.shared.get();
    let first = KernelNodeParamsV1 { function, grid, block, shared: shared_bytes, params, extra };
    let params = KernelNodeParams { first, kernel: 0, context: 0 };
    let functions = &shared.driver.functions;
    let change = Change {
        what: node.what.get(),
        node: node.node.get(),
        of: node.of.get(),
        context: 0,
        after,
        functions: [
            functions.add_kernel_node,
            functions.set_kernel_node,
            functions.set_exec_kernel_node,
        ],
    };
    // SAFETY: parameters as the driver has described them, and a kernel of the driver's.
    unsafe { change.make(&shared, &raw const params as usize) }
}

/// Node that is added to a graph, or changed in one.
pub(super) struct Change {
    /// [`ADD_NODE`], [`SET_NODE`] or [`SET_EXEC_NODE`].
    pub(super) what: u32,
    pub(super) node: u64,
    /// Graph, or executable graph.
    pub(super) of: u64,
    /// Context of a copy. Zero for a kernel, whose functions have no such argument.
    pub(super) context: u64,
    /// Nodes before it.
    pub(super) after: Vec<u64>,
    /// Functions that add the node, and change it in a graph and in an executable graph.
    pub(super) functions: [Function; 3],
}

impl Change {
    /// Makes the call, and returns the driver's code.
    ///
    /// # Errors
    ///
    /// `Protocol` for another operation.
    ///
    /// # Safety
    ///
    /// `params` is the address of what the functions want, and that may be used as they use it.
    pub(super) unsafe fn make(&self, shared: &Shared, params: usize) -> Result<u32> {
        let get = |kind, id| lock(&shared.handles).get(kind, id);
        let [add, set, set_exec] = self.functions;
        let made = match self.what {
            ADD_NODE => (|| {
                let graph = get(Kind::Graph, self.of)?;
                let context = get(Kind::Context, self.context)?;
                let after = self.after.iter().map(|id| get(Kind::Node, *id));
                let after = after.collect::<Result<Vec<usize>, u32>>()?;
                let (mut new, list, count) = (0_usize, after.as_ptr() as usize, after.len());
                let place = &raw mut new as usize;
                // SAFETY: `place` and `list` are addresses of locals, the handles are the driver's,
                // and `# Safety` demands that `params` is what `add` requires.
                check(unsafe { add.call([place, graph, list, count, params, context]) })?;
                lock(&shared.handles).insert(Kind::Node, self.node, new, self.of)
            })(),
            SET_NODE => get(Kind::Node, self.node).and_then(|node| {
                // SAFETY: the node is the driver's, and `# Safety` demands that `params` is what
                // `set` requires.
                check(unsafe { set.call([node, params]) })
            }),
            SET_EXEC_NODE => (|| {
                let exec = get(Kind::Exec, self.of)?;
                let node = get(Kind::Node, self.node)?;
                let context = get(Kind::Context, self.context)?;
                // SAFETY: the handles are the driver's, and `# Safety` demands that `params` is
                // what `set_exec` requires.
                check(unsafe { set_exec.call([exec, node, params, context]) })
            })(),
            what => return Err(Error::Protocol(format!("node: operation {what}"))),
        };
        Ok(made.err().unwrap_or(0))
    }
}

fn check(code: u32) -> Result<(), u32> {
    if code == 0 { Ok(()) } else { Err(code) }
}
