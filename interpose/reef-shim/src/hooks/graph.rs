//! Graphs: their instantiation, and updates of executable graphs.

use super::declare::{hooks, ptsz_variants, write_through};
use crate::driver::calls::Stream;
use crate::driver::lists::copied;
use crate::driver::state::is_on;
use crate::graph_gates::backing::{child_updated, destroyed, instantiated, updated};
use crate::graph_gates::instantiate::{destroy, instantiate, put_child};
use crate::graph_gates::update::ParamsVersion::{First, Later};
use crate::graph_gates::update::{child, enable, kernel, node, update};
use crate::guest::ungated_captures::add_bodies;
use reef_cuda_abi::layouts::{NodeParams, UpdateResult};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`: kernels launch it.
const FROM_DEVICE: u64 = 4;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`: it is uploaded in a stream.
const UPLOAD: u64 = 2;

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`, whose last two fields are results.
#[repr(C)]
#[derive(Debug)]
struct InstantiateParams {
    flags: u64,
    stream: usize,
    node: usize,
    result: u32,
}

/// Makes an executable graph by `real`, which takes the places of its handle and of the graph.
fn make(
    to: usize,
    graph: usize,
    flags: u64,
    upload: Option<Stream>,
    real: impl Fn(usize, usize) -> u32,
) -> u32 {
    write_through(to as *mut usize, |exec| {
        instantiated(exec, graph, upload, || {
            instantiate(exec, graph, flags & FROM_DEVICE != 0, |graph| real(exec as usize, graph))
        })
    })
}

/// Makes a call with a copy of the program's parameters, so that the driver reads what is read
/// here, and writes it back with the results. `call` gets its address, the flags, and the stream of
/// an upload.
fn with_params(params: usize, call: impl FnOnce(usize, u64, Option<usize>) -> u32) -> u32 {
    if params == 0 {
        return call(params, 0, None);
    }
    let place = params as *mut MaybeUninit<InstantiateParams>;
    // SAFETY: not null, and the driver demands `CUDA_GRAPH_INSTANTIATE_PARAMS` that may be written.
    // The program has set the flags, and the stream if it names one.
    let (mut own, flags, stream) = unsafe {
        let own = place.read_unaligned();
        let flags = (&raw const (*own.as_ptr()).flags).read();
        let stream = (flags & UPLOAD != 0).then(|| (&raw const (*own.as_ptr()).stream).read());
        (own, flags, stream)
    };
    let code = call(own.as_mut_ptr() as usize, flags, stream);
    // SAFETY: not null, and the driver demands that it may write its results there. It has written
    // them to the copy.
    unsafe { place.write_unaligned(own) };
    code
}

/// `CU_GRAPH_NODE_TYPE_KERNEL`: the words are `CUDA_KERNEL_NODE_PARAMS`.
const KERNEL: u32 = 0;
const KERNEL_WORDS: usize = 9;
/// `CU_GRAPH_NODE_TYPE_GRAPH`: the first word is a graph.
const CHILD: u32 = 4;

/// Calls `call` with the address of a copy of some parameters, whose first words are those at this
/// address.
///
/// # Safety
///
/// Both are there. A program has written the words of the kind: the others are copied as they are,
/// initialized or not.
unsafe fn with_words<const WORDS: usize>(
    params: *const NodeParams,
    words: usize,
    call: impl FnOnce(usize) -> u32,
) -> u32 {
    // SAFETY: `# Safety` demands that `params` can be read. The copy is `MaybeUninit`, since the
    // program need not have initialized all of it.
    let mut copy = unsafe { params.cast::<MaybeUninit<NodeParams>>().read() };
    // SAFETY: `copy` has room for 30 words, and `WORDS` is smaller. `# Safety` demands that the
    // program has written `WORDS` words at `words`.
    unsafe {
        let to = (&raw mut (*copy.as_mut_ptr()).words).cast::<usize>();
        std::ptr::copy_nonoverlapping(words as *const usize, to, WORDS);
    }
    call(copy.as_ptr() as usize)
}

/// Sets the parameters of a node of any kind. `params` is the address of [`NodeParams`].
fn set_params(exec: usize, of: usize, params: usize, real: impl Fn(usize, usize) -> u32) -> u32 {
    let program_params = params as *const NodeParams;
    // SAFETY: not null, and the driver demands a `CUgraphNodeParams`, of which the program has set
    // the kind.
    let kind = (!program_params.is_null()).then(|| unsafe { (*program_params).kind });
    // SAFETY: not null: the words of the kind begin there.
    let words = || unsafe { &raw const (*program_params).words } as usize;
    match kind {
        Some(KERNEL) => {
            // SAFETY: the kind is that of a kernel, so the driver demands `CUDA_KERNEL_NODE_PARAMS`
            // in the words. `kernel` passes on these or a copy of its own, both of `KERNEL_WORDS`
            // words.
            unsafe {
                kernel(exec, of, words(), Later, |of, words| {
                    with_words::<KERNEL_WORDS>(program_params, words, |params| real(of, params))
                })
            }
        }
        Some(CHILD) => {
            // SAFETY: the kind is that of a graph, so the driver demands that the program has
            // written the first word, a graph.
            let inner = unsafe { (words() as *const usize).read() };
            let set = |of: usize, inner: usize| {
                let words = &raw const inner as usize;
                // SAFETY: `program_params` is the program's struct, and `words` the address of
                // `inner`, a local of one word that lives during the call.
                unsafe { with_words::<1>(program_params, words, |params| real(of, params)) }
            };
            child_updated(exec, of, inner, || child(exec, of, inner, set))
        }
        _ => node(exec, of, |of| real(of, params)),
    }
}

/// `CU_GRAPH_NODE_TYPE_CONDITIONAL`: the second word ends with a number of graphs, and the third
/// one is where the driver names them.
const CONDITIONAL: u32 = 13;
/// `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE`: a node of a graph gets that graph, and no clone of it.
const MOVED: u32 = 1;

/// Adds a node of any kind to a graph. `params` is the address of [`NodeParams`].
fn add(graph: usize, params: usize, real: impl Fn(usize) -> u32) -> u32 {
    let program_params = params as *const NodeParams;
    // SAFETY: not null, and the driver demands a `CUgraphNodeParams`, of which the program has set
    // the kind.
    let kind = (!program_params.is_null()).then(|| unsafe { (*program_params).kind });
    // SAFETY: only with a kind, so not null: the words of the kind begin there.
    let words = || unsafe { (&raw const (*program_params).words).cast::<usize>() };
    match kind {
        Some(CHILD) => {
            // SAFETY: the kind is that of a graph, so the driver demands that the program has
            // written a graph, and zero or an ownership.
            let (inner, ownership) = unsafe { (words().read(), words().add(1).read() as u32) };
            if ownership == MOVED {
                return real(params);
            }
            put_child(graph, inner, |inner| {
                let words = &raw const inner as usize;
                // SAFETY: `program_params` is the program's struct, and `words` the address of
                // `inner`, a local of one word that lives during the call.
                unsafe { with_words::<1>(program_params, words, &real) }
            })
        }
        Some(CONDITIONAL) => {
            let code = real(params);
            if code == 0 && is_on() {
                // SAFETY: the driver has taken the parameters, so they name at least one graph.
                let bodies = unsafe {
                    let count = (words().add(1).read() >> 32).max(1);
                    copied(words().add(2).read() as *const usize, count)
                };
                add_bodies(bodies.into_iter().flatten());
            }
            code
        }
        _ => real(params),
    }
}

/// Returns the addresses at which a result names nodes.
fn nodes_of(at: *mut UpdateResult) -> [*mut usize; 2] {
    if at.is_null() {
        return [std::ptr::null_mut(); 2];
    }
    // SAFETY: not null, and the driver demands a struct of this type. Only addresses inside of it
    // are made; nothing is read.
    unsafe { [&raw mut (*at).node, &raw mut (*at).from] }
}

hooks! {
    cuGraphAddNode(
        to: usize, graph: usize, after: usize, count: usize, params: usize,
    ) |real(params)| add(graph, params, real);
    cuGraphAddNode_v2(
        to: usize, graph: usize, after: usize, edges: usize, count: usize, params: usize,
    ) |real(params)| add(graph, params, real);
    cuGraphAddChildGraphNode(
        to: usize, graph: usize, after: usize, count: usize, inner: usize,
    ) |real(inner)| put_child(graph, inner, real);
    cuGraphInstantiate / cuGraphInstantiate_v2(
        exec: usize, graph: usize, error: *mut usize, log: *mut c_void, bytes: usize,
    ) |real(exec, graph)| make(exec, graph, 0, None, real);
    cuGraphInstantiateWithFlags(
        exec: usize, graph: usize, flags: u64,
    ) |real(exec, graph)| make(exec, graph, flags, None, real);
    cuGraphExecDestroy(exec: usize) |real| destroyed(exec, || destroy(exec, real));
    cuGraphExecUpdate(
        exec: usize, graph: usize, error: *mut usize, result: *mut u32,
    ) |real(graph)| updated(exec, graph, || update(exec, graph, [error], real));
    cuGraphExecUpdate_v2(
        exec: usize, graph: usize, result: *mut UpdateResult,
    ) |real(graph)| updated(exec, graph, || {
        update(exec, graph, nodes_of(result), real)
    });
    cuGraphExecChildGraphNodeSetParams(
        exec: usize, node: usize, inner: usize,
    ) |real(node, inner)| child_updated(exec, node, inner, || child(exec, node, inner, real));
}

ptsz_variants! {
    cuGraphInstantiateWithParams / cuGraphInstantiateWithParams_ptsz(
        exec: usize, graph: usize, params: usize,
    ) |is_ptsz, real(exec, graph, params)| with_params(params, |params, flags, stream| {
        let upload = stream.map(|stream| Stream::new(stream, is_ptsz));
        make(exec, graph, flags, upload, |exec, graph| real(exec, graph, params))
    });
}

// Calls that name a node of an executable graph by the original node.
hooks! {
    cuGraphExecKernelNodeSetParams(
        exec: usize, of: usize, params: usize,
        // SAFETY: the driver demands that `params` is null or the address of parameters of the
        // first version. Handles are passed on, and the driver checks them.
    ) |real(of, params)| unsafe { kernel(exec, of, params, First, real) };
    cuGraphExecKernelNodeSetParams_v2(
        exec: usize, of: usize, params: usize,
        // SAFETY: the driver demands that `params` is null or the address of parameters of the
        // second version. Handles are passed on, and the driver checks them.
    ) |real(of, params)| unsafe { kernel(exec, of, params, Later, real) };
    cuGraphExecMemcpyNodeSetParams / cuGraphExecMemsetNodeSetParams(
        exec: usize, of: usize, params: *const c_void, context: usize,
    ) |real(of)| node(exec, of, real);
    cuGraphExecHostNodeSetParams /
    cuGraphExecBatchMemOpNodeSetParams /
    cuGraphExecExternalSemaphoresSignalNodeSetParams /
    cuGraphExecExternalSemaphoresWaitNodeSetParams(
        exec: usize, of: usize, params: *const c_void,
    ) |real(of)| node(exec, of, real);
    cuGraphExecEventRecordNodeSetEvent / cuGraphExecEventWaitNodeSetEvent(
        exec: usize, of: usize, event: usize,
    ) |real(of)| node(exec, of, real);
    cuGraphExecNodeSetParams(
        exec: usize, of: usize, params: usize,
    ) |real(of, params)| set_params(exec, of, params, real);
    cuGraphNodeSetEnabled(
        exec: usize, of: usize, enabled: u32,
    ) |real(of)| enable(exec, of, real);
    cuGraphNodeGetEnabled(
        exec: usize, of: usize, enabled: *mut u32,
    ) |real(of)| node(exec, of, real);
}
