//! Graphs: their structure, and what runs them.

use crate::calls::export::{forward, forward_ptsz, plain};
use crate::codes::*;
use crate::state::context::enter;
use crate::types::Stream;
use std::ffi::{c_char, c_void};

forward! {
    cudaGraphCreate(graph: *mut usize, flags: u32) => cuGraphCreate(graph, flags);
    cudaGraphDestroy(graph: usize) => cuGraphDestroy(graph);
    cudaGraphClone(clone: *mut usize, graph: usize) => cuGraphClone(clone, graph);
    cudaGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize) => cuGraphGetNodes(graph, nodes, count);
    cudaGraphGetRootNodes(graph: usize, nodes: *mut usize, count: *mut usize)
        => cuGraphGetRootNodes(graph, nodes, count);
    cudaGraphGetEdges(graph: usize, from: *mut usize, to: *mut usize, count: *mut usize)
        => cuGraphGetEdges(graph, from, to, count);
    cudaGraphGetEdges_v2(graph: usize, from: *mut usize, to: *mut usize, edges: *mut c_void, count: *mut usize)
        => cuGraphGetEdges_v2(graph, from, to, edges, count);
    cudaGraphNodeGetType(node: usize, kind: *mut u32) => cuGraphNodeGetType(node, kind);
    cudaGraphNodeFindInClone(node: *mut usize, of: usize, clone: usize) => cuGraphNodeFindInClone(node, of, clone);
    cudaGraphDestroyNode(node: usize) => cuGraphDestroyNode(node);
    cudaGraphAddDependencies(graph: usize, from: *const usize, to: *const usize, count: usize)
        => cuGraphAddDependencies(graph, from, to, count);
    cudaGraphRemoveDependencies(graph: usize, from: *const usize, to: *const usize, count: usize)
        => cuGraphRemoveDependencies(graph, from, to, count);
    cudaGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: u64)
        => cuGraphInstantiateWithFlags(exec, graph, flags);
    cudaGraphInstantiate(exec: *mut usize, graph: usize, flags: u64)
        => cuGraphInstantiateWithFlags(exec, graph, flags);
    cudaGraphExecDestroy(exec: usize) => cuGraphExecDestroy(exec);
    cudaGraphExecGetFlags(exec: usize, flags: *mut u64) => cuGraphExecGetFlags(exec, flags);
    cudaGraphExecUpdate(exec: usize, graph: usize, info: *mut c_void) => cuGraphExecUpdate_v2(exec, graph, info);
    cudaGraphDebugDotPrint(graph: usize, path: *const c_char, flags: u32) => cuGraphDebugDotPrint(graph, path, flags);
    cudaGraphAddEmptyNode(node: *mut usize, graph: usize, after: *const usize, count: usize)
        => cuGraphAddEmptyNode(node, graph, after, count);
    cudaGraphAddChildGraphNode(node: *mut usize, graph: usize, after: *const usize, count: usize, child: usize)
        => cuGraphAddChildGraphNode(node, graph, after, count, child);
    cudaGraphChildGraphNodeGetGraph(node: usize, child: *mut usize) => cuGraphChildGraphNodeGetGraph(node, child);
    cudaGraphExecChildGraphNodeSetParams(exec: usize, node: usize, child: usize)
        => cuGraphExecChildGraphNodeSetParams(exec, node, child);
    cudaGraphAddEventRecordNode(node: *mut usize, graph: usize, after: *const usize, count: usize, event: usize)
        => cuGraphAddEventRecordNode(node, graph, after, count, event);
    cudaGraphAddEventWaitNode(node: *mut usize, graph: usize, after: *const usize, count: usize, event: usize)
        => cuGraphAddEventWaitNode(node, graph, after, count, event);
    cudaGraphAddHostNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const c_void)
        => cuGraphAddHostNode(node, graph, after, count, params);
    cudaGraphHostNodeGetParams(node: usize, params: *mut c_void) => cuGraphHostNodeGetParams(node, params);
    cudaGraphHostNodeSetParams(node: usize, params: *const c_void) => cuGraphHostNodeSetParams(node, params);
    cudaGraphExecHostNodeSetParams(exec: usize, node: usize, params: *const c_void)
        => cuGraphExecHostNodeSetParams(exec, node, params);
    cudaGraphAddMemAllocNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *mut c_void)
        => cuGraphAddMemAllocNode(node, graph, after, count, params);
    cudaGraphAddMemFreeNode(node: *mut usize, graph: usize, after: *const usize, count: usize, at: u64)
        => cuGraphAddMemFreeNode(node, graph, after, count, at);
    cudaDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: *mut c_void)
        => cuDeviceGetGraphMemAttribute(device, attribute, value);
    cudaDeviceSetGraphMemAttribute(device: i32, attribute: u32, value: *mut c_void)
        => cuDeviceSetGraphMemAttribute(device, attribute, value);
    cudaDeviceGraphMemTrim(device: i32) => cuDeviceGraphMemTrim(device);
    cudaUserObjectCreate(object: *mut usize, data: usize, destroy: usize, count: u32, flags: u32)
        => cuUserObjectCreate(object, data, destroy, count, flags);
    cudaUserObjectRetain(object: usize, count: u32) => cuUserObjectRetain(object, count);
    cudaUserObjectRelease(object: usize, count: u32) => cuUserObjectRelease(object, count);
    cudaGraphRetainUserObject(graph: usize, object: usize, count: u32, flags: u32)
        => cuGraphRetainUserObject(graph, object, count, flags);
    cudaGraphReleaseUserObject(graph: usize, object: usize, count: u32)
        => cuGraphReleaseUserObject(graph, object, count);
}

forward_ptsz! {
    cudaGraphLaunch / cudaGraphLaunch_ptsz(exec: usize, stream: Stream) => cuGraphLaunch(exec, stream);
    cudaGraphUpload / cudaGraphUpload_ptsz(exec: usize, stream: Stream) => cuGraphUpload(exec, stream);
    cudaGraphInstantiateWithParams / cudaGraphInstantiateWithParams_ptsz(
        exec: *mut usize, graph: usize, params: *mut c_void
    ) => cuGraphInstantiateWithParams(exec, graph, params);
}

plain! {
    cudaGraphAddDependencies_v2(
        graph: usize, from: *const usize, to: *const usize, edges: *const c_void, count: usize
    ) = add_edges;
    cudaGraphRemoveDependencies_v2(
        graph: usize, from: *const usize, to: *const usize, edges: *const c_void, count: usize
    ) = remove_edges;
}

/// Edges without data are the older function's, which more drivers have.
unsafe fn add_edges(
    graph: usize,
    from: *const usize,
    to: *const usize,
    edges: *const c_void,
    count: usize,
) -> Result<(), u32> {
    let driver = enter()?;
    if (from.is_null() || to.is_null()) && count > 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: neither list is null if `count` isn't zero, and cudaGraphAddDependencies demands
    // `count` nodes in both, and as much data as edges.
    unsafe {
        if edges.is_null() {
            driver.cuGraphAddDependencies(graph, from, to, count)
        } else {
            driver.cuGraphAddDependencies_v2(graph, from, to, edges, count)
        }
    }
}

unsafe fn remove_edges(
    graph: usize,
    from: *const usize,
    to: *const usize,
    edges: *const c_void,
    count: usize,
) -> Result<(), u32> {
    let driver = enter()?;
    // SAFETY: cudaGraphRemoveDependencies demands `count` nodes in both lists, and as much data as
    // edges. All are passed on unread.
    unsafe {
        if edges.is_null() {
            driver.cuGraphRemoveDependencies(graph, from, to, count)
        } else {
            driver.cuGraphRemoveDependencies_v2(graph, from, to, edges, count)
        }
    }
}
