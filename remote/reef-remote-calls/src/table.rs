//! Table of calls that are packed by their description alone.

use crate::spec::Arg::{End, Handle, Handles, In, Known, New, Null, Out, Text, Word32, Word64};
use crate::spec::Kind::*;
use crate::spec::Spec;
use crate::spec::Way::{Blocking, Direct, Quiet};

/// Calls `$callback! { exported { … } custom { … } }` with all lines of the table. The client
/// exports the first ones as they are, with their variants for per-thread default
/// streams. It has functions of its own that make the others.
#[macro_export]
macro_rules! for_each_call {
    ($callback:ident) => {
        $callback! {
            exported {
                Blocking cuCtxSynchronize();
                Blocking cuCtxSynchronize_v2(context: Handle(Context));
                Direct cuCtxGetApiVersion(context: Handle(Context), version: Out(4));
                Direct cuCtxGetStreamPriorityRange(least: Out(4), greatest: Out(4));
                Direct cuCtxGetLimit(value: Out(8), limit: Word32);
                Direct cuCtxSetLimit(limit: Word32, value: Word64);
                Direct cuCtxGetCacheConfig(config: Out(4));
                Direct cuCtxSetCacheConfig(config: Word32);
                Direct cuCtxGetSharedMemConfig(config: Out(4));
                Direct cuCtxSetSharedMemConfig(config: Word32);
                Direct cuCtxGetFlags(flags: Out(4));
                Direct cuCtxGetId(context: Handle(Context), id: Out(8));
                Direct cuCtxResetPersistingL2Cache();
                Direct cuDevicePrimaryCtxGetState(device: Word32, flags: Out(4), is_active: Out(4));
                Direct cuDevicePrimaryCtxSetFlags(device: Word32, flags: Word32);
                Direct cuDevicePrimaryCtxSetFlags_v2(device: Word32, flags: Word32);
                Direct cuDeviceGetDefaultMemPool(pool: Known(Pool), device: Word32);
                Direct cuDeviceGetMemPool(pool: Known(Pool), device: Word32);
                Direct cuDeviceSetMemPool(device: Word32, pool: Handle(Pool));
                Blocking cuMemPoolTrimTo(pool: Handle(Pool), keep: Word64);
                Direct cuDeviceGetGraphMemAttribute(device: Word32, attribute: Word32, value: Out(8));
                Blocking cuDeviceGraphMemTrim(device: Word32);

                Direct cuMemAllocAsync / cuMemAllocAsync_ptsz(at: Out(8), bytes: Word64, stream: Handle(Stream));
                Direct cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz(
                    at: Out(8), bytes: Word64, pool: Handle(Pool), stream: Handle(Stream)
                );
                Quiet cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz(
                    to: Word64, from: Word64, bytes: Word64, stream: Handle(Stream)
                );
                Quiet cuMemsetD8Async / cuMemsetD8Async_ptsz(
                    to: Word64, value: Word32, count: Word64, stream: Handle(Stream)
                );
                Quiet cuMemsetD16Async / cuMemsetD16Async_ptsz(
                    to: Word64, value: Word32, count: Word64, stream: Handle(Stream)
                );
                Quiet cuMemsetD32Async / cuMemsetD32Async_ptsz(
                    to: Word64, value: Word32, count: Word64, stream: Handle(Stream)
                );
                Quiet cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz(
                    to: Word64, pitch: Word64, value: Word32, width: Word64, height: Word64, stream: Handle(Stream)
                );
                Quiet cuMemsetD2D16Async / cuMemsetD2D16Async_ptsz(
                    to: Word64, pitch: Word64, value: Word32, width: Word64, height: Word64, stream: Handle(Stream)
                );
                Quiet cuMemsetD2D32Async / cuMemsetD2D32Async_ptsz(
                    to: Word64, pitch: Word64, value: Word32, width: Word64, height: Word64, stream: Handle(Stream)
                );

                Direct cuStreamCreate(stream: New(Stream), flags: Word32);
                Direct cuStreamCreateWithPriority(stream: New(Stream), flags: Word32, priority: Word32);
                Direct cuStreamDestroy_v2(stream: End(Stream));
                Blocking cuStreamSynchronize / cuStreamSynchronize_ptsz(stream: Handle(Stream));
                Direct cuStreamQuery / cuStreamQuery_ptsz(stream: Handle(Stream));
                Quiet cuStreamWaitEvent / cuStreamWaitEvent_ptsz(
                    stream: Handle(Stream), event: Handle(Event), flags: Word32
                );
                Direct cuStreamGetFlags / cuStreamGetFlags_ptsz(stream: Handle(Stream), flags: Out(4));
                Direct cuStreamGetPriority / cuStreamGetPriority_ptsz(stream: Handle(Stream), priority: Out(4));
                Direct cuStreamGetId / cuStreamGetId_ptsz(stream: Handle(Stream), id: Out(8));
                Direct cuStreamGetCtx / cuStreamGetCtx_ptsz(stream: Handle(Stream), context: Known(Context));
                Direct cuStreamGetDevice / cuStreamGetDevice_ptsz(stream: Handle(Stream), device: Out(4));
                Direct cuStreamIsCapturing / cuStreamIsCapturing_ptsz(stream: Handle(Stream), status: Out(4));
                Direct cuStreamGetCaptureInfo / cuStreamGetCaptureInfo_ptsz(
                    stream: Handle(Stream), status: Out(4), id: Out(8)
                );
                Direct cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(stream: Handle(Stream), mode: Word32);
                Direct cuStreamEndCapture / cuStreamEndCapture_ptsz(stream: Handle(Stream), graph: Known(Graph));
                Quiet cuStreamWaitValue32_v2 / cuStreamWaitValue32_v2_ptsz(
                    stream: Handle(Stream), at: Word64, value: Word32, flags: Word32
                );
                Quiet cuStreamWaitValue64_v2 / cuStreamWaitValue64_v2_ptsz(
                    stream: Handle(Stream), at: Word64, value: Word64, flags: Word32
                );
                Quiet cuStreamWriteValue32_v2 / cuStreamWriteValue32_v2_ptsz(
                    stream: Handle(Stream), at: Word64, value: Word32, flags: Word32
                );
                Quiet cuStreamWriteValue64_v2 / cuStreamWriteValue64_v2_ptsz(
                    stream: Handle(Stream), at: Word64, value: Word64, flags: Word32
                );

                Direct cuEventCreate(event: New(Event), flags: Word32);
                Direct cuEventDestroy_v2(event: End(Event));
                Quiet cuEventRecord / cuEventRecord_ptsz(event: Handle(Event), stream: Handle(Stream));
                Quiet cuEventRecordWithFlags / cuEventRecordWithFlags_ptsz(
                    event: Handle(Event), stream: Handle(Stream), flags: Word32
                );
                Direct cuEventQuery(event: Handle(Event));
                Blocking cuEventSynchronize(event: Handle(Event));
                Direct cuEventElapsedTime(millis: Out(4), from: Handle(Event), to: Handle(Event));
                Direct cuEventElapsedTime_v2(millis: Out(4), from: Handle(Event), to: Handle(Event));

                Blocking cuModuleUnload(module: End(Module));
                Direct cuModuleGetGlobal_v2(at: Out(8), bytes: Out(8), module: Handle(Module), name: Text);
                Direct cuModuleGetLoadingMode(mode: Out(4));
                Direct cuModuleGetFunctionCount(count: Out(4), module: Handle(Module));
                Blocking cuLibraryUnload(library: End(Library));
                Direct cuLibraryGetModule(module: Known(Module), library: Handle(Library));
                Direct cuLibraryGetGlobal(at: Out(8), bytes: Out(8), library: Handle(Library), name: Text);
                Direct cuLibraryGetKernelCount(count: Out(4), library: Handle(Library));
                Direct cuFuncGetAttribute(value: Out(4), attribute: Word32, function: Handle(Function));
                Direct cuFuncSetAttribute(function: Handle(Function), attribute: Word32, value: Word32);
                Direct cuFuncSetCacheConfig(function: Handle(Function), config: Word32);
                Direct cuFuncSetSharedMemConfig(function: Handle(Function), config: Word32);
                Direct cuFuncGetModule(module: Known(Module), function: Handle(Function));
                Direct cuFuncIsLoaded(state: Out(4), function: Handle(Function));
                Direct cuFuncLoad(function: Handle(Function));
                Direct cuFuncGetParamInfo(function: Handle(Function), index: Word64, offset: Out(8), bytes: Out(8));
                Direct cuKernelGetParamInfo(kernel: Handle(Kernel), index: Word64, offset: Out(8), bytes: Out(8));
                Direct cuKernelGetAttribute(value: Out(4), attribute: Word32, kernel: Handle(Kernel), device: Word32);
                Direct cuKernelSetAttribute(attribute: Word32, value: Word32, kernel: Handle(Kernel), device: Word32);
                Direct cuKernelSetCacheConfig(kernel: Handle(Kernel), config: Word32, device: Word32);
                Direct cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    blocks: Out(4), function: Handle(Function), threads: Word32, shared: Word64
                );
                Direct cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                    blocks: Out(4), function: Handle(Function), threads: Word32, shared: Word64, flags: Word32
                );
                Direct cuOccupancyAvailableDynamicSMemPerBlock(
                    bytes: Out(8), function: Handle(Function), blocks: Word32, threads: Word32
                );

                Direct cuGraphCreate(graph: New(Graph), flags: Word32);
                Direct cuGraphDestroy(graph: End(Graph));
                Direct cuGraphClone(clone: New(Graph), graph: Handle(Graph));
                Direct cuGraphInstantiateWithFlags(exec: New(Exec), graph: Handle(Graph), flags: Word64);
                Direct cuGraphExecDestroy(exec: End(Exec));
                Quiet cuGraphLaunch / cuGraphLaunch_ptsz(exec: Handle(Exec), stream: Handle(Stream));
                Quiet cuGraphUpload / cuGraphUpload_ptsz(exec: Handle(Exec), stream: Handle(Stream));
                Direct cuGraphAddEmptyNode(
                    node: New(Node), graph: Handle(Graph), after: Handles(Node, 3), count: Word64
                );
                Direct cuGraphAddChildGraphNode(
                    node: New(Node), graph: Handle(Graph), after: Handles(Node, 3), count: Word64, child: Handle(Graph)
                );
                Direct cuGraphAddMemsetNode(
                    node: New(Node), graph: Handle(Graph), after: Handles(Node, 3), count: Word64, params: In(40),
                    context: Handle(Context)
                );
                Direct cuGraphMemsetNodeGetParams(node: Handle(Node), params: Out(40));
                Direct cuGraphMemsetNodeSetParams(node: Handle(Node), params: In(40));
                Direct cuGraphExecMemsetNodeSetParams(
                    exec: Handle(Exec), node: Handle(Node), params: In(40), context: Handle(Context)
                );
                Direct cuGraphDestroyNode(node: End(Node));
                Direct cuGraphAddDependencies(
                    graph: Handle(Graph), from: Handles(Node, 3), to: Handles(Node, 3), count: Word64
                );
                Direct cuGraphExecChildGraphNodeSetParams(
                    exec: Handle(Exec), node: Handle(Node), child: Handle(Graph)
                );
                Direct cuGraphNodeFindInClone(node: Known(Node), of: Handle(Node), clone: Handle(Graph));
                Direct cuGraphNodeGetType(node: Handle(Node), kind: Out(4));
            }
            custom {
                Direct cuCtxCreate_v2(context: New(Context), flags: Word32, device: Word32);
                Blocking cuCtxDestroy_v2(context: End(Context));
                Direct cuDevicePrimaryCtxRetain(context: Known(Context), device: Word32);
                Blocking cuDevicePrimaryCtxRelease_v2(device: Word32);
                Blocking cuDevicePrimaryCtxReset_v2(device: Word32);
                Direct cuMemPoolGetAttribute(pool: Handle(Pool), attribute: Word32, value: Out(8));
                Direct cuMemPoolSetAttribute(pool: Handle(Pool), attribute: Word32, value: In(8));
                Direct cuMemAlloc_v2(at: Out(8), bytes: Word64);
                Direct cuMemAllocPitch_v2(at: Out(8), pitch: Out(8), width: Word64, height: Word64, element: Word32);
                Blocking cuMemFree_v2(at: Word64);
                Direct cuMemGetInfo_v2(free: Out(8), total: Out(8));
                Direct cuMemGetAddressRange_v2(base: Out(8), bytes: Out(8), at: Word64);
                Quiet cuMemFreeAsync(at: Word64, stream: Handle(Stream));
                Direct cuKernelGetFunction(function: Known(Function), kernel: Handle(Kernel));
                Direct cuGraphExecUpdate_v2(exec: Handle(Exec), graph: Handle(Graph), result: Out(24));
                Direct cuGraphGetNodes(graph: Handle(Graph), nodes: Null, count: Out(8));
                Direct cuPointerGetAttribute(value: Out(16), attribute: Word32, at: Word64);
            }
        }
    };
}

macro_rules! declare {
    (
        exported { $($way:ident $name:ident $(/ $ptsz:ident)? ($($arg:ident: $kind:expr),*);)* }
        custom { $($own_way:ident $own:ident ($($own_arg:ident: $own_kind:expr),*);)* }
    ) => {
        /// Call of the table: its position.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        #[allow(non_camel_case_types)]
        #[expect(missing_docs, reason = "as the driver names them")]
        pub enum Call {
            $($name,)*
            $($own,)*
        }

        /// Table of calls.
        pub static CALLS: &[Spec] = &[
            $(Spec { name: name(concat!(stringify!($name), "\0")), way: $way, args: &[$($kind),*] },)*
            $(Spec { name: name(concat!(stringify!($own), "\0")), way: $own_way, args: &[$($own_kind),*] },)*
        ];
    };
}

const fn name(text: &'static str) -> &'static std::ffi::CStr {
    match std::ffi::CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with a zero"),
    }
}

for_each_call!(declare);

impl Call {
    /// Returns its line of the table.
    pub fn spec(self) -> &'static Spec {
        &CALLS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_call_is_found_by_its_position() {
        assert_eq!(Call::cuCtxSynchronize.spec().name, c"cuCtxSynchronize");
        assert_eq!(Call::cuPointerGetAttribute.spec().name, c"cuPointerGetAttribute");
        assert_eq!(Call::cuPointerGetAttribute as usize + 1, CALLS.len());
    }

    #[test]
    fn lists_name_an_argument_that_counts_them() {
        for spec in CALLS {
            assert!(spec.args.len() <= crate::MAX_ARGS, "{:?}", spec.name);
            for arg in spec.args {
                if let Handles(_, at) = *arg {
                    assert_eq!(spec.args[at], Word64, "{:?}", spec.name);
                }
            }
            let new = spec.args.iter().filter(|arg| matches!(arg, New(_) | Known(_))).count();
            assert!(new <= 1, "{:?}", spec.name);
        }
    }
}
