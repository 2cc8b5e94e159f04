//! Structs that the driver's functions take, laid out as in cuda.h on 64-bit systems.
//!
//! Handles are words, and so are addresses whose target depends on a handle or a kind. A struct of
//! a program may be initialized in part: readers touch only the fields that its kind demands.

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Handle of the stream.
    pub stream: usize,
    /// List of attributes; may be null if there are none.
    pub attributes: *const LaunchAttribute,
    /// Number of attributes.
    pub count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`.
    pub kind: u32,
    /// Value, of which the kind uses a part.
    pub value: [u64; 8],
}

/// `CUDA_LAUNCH_PARAMS`: one of several launches.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchParams {
    /// Handle of the function.
    pub function: usize,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Handle of the stream.
    pub stream: usize,
    /// Address of a list with the address of each parameter.
    pub params: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v1`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNodeParamsV1 {
    /// Handle of the function. Zero in the second version if there is a kernel.
    pub function: usize,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Address of a list with the address of each parameter; zero if `extra` has them.
    pub params: usize,
    /// Address of a list of options, among which is a block of all parameters, or zero.
    pub extra: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNodeParams {
    /// Fields of the first version.
    pub first: KernelNodeParamsV1,
    /// Handle of a library's kernel, or zero.
    pub kernel: usize,
    /// Handle of the kernel's context. Zero is the current one.
    pub context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemsetNodeParams {
    /// First address.
    pub at: usize,
    /// Bytes from a row to the next one.
    pub pitch: usize,
    /// Value of an element.
    pub value: u32,
    /// Bytes of an element.
    pub element: u32,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// `CUstreamBatchMemOpParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchMemOp {
    /// `CUstreamBatchMemOpType`.
    pub operation: u32,
    /// Address of the word that is waited for or written.
    pub at: u64,
    /// Value that is waited for or written.
    pub value: u64,
    /// Flags of the wait or the write.
    pub flags: u32,
    /// Not used by waits and writes.
    pub rest: [u64; 2],
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchMemOpNodeParams {
    /// Handle of the context.
    pub context: usize,
    /// Number of operations.
    pub count: u32,
    /// List of operations.
    pub ops: *const BatchMemOp,
    /// Reserved.
    pub flags: u32,
}

/// `CUgraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NodeParams {
    /// `CUgraphNodeType`.
    pub kind: u32,
    /// Reserved.
    pub reserved: [u32; 3],
    /// Struct of the kind, at most 29 words. The last word is reserved.
    pub words: [usize; 30],
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UpdateResult {
    /// `CUgraphExecUpdateResult`.
    pub result: u32,
    /// Handle of the node that is at fault, or zero.
    pub node: usize,
    /// Handle of the node from which the edge at fault begins, or zero.
    pub from: usize,
}

/// Source or target of [`Memcpy2D`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy2DSide {
    /// First column, in bytes, and first row.
    pub corner: [usize; 2],
    /// `CUmemorytype`, which says which of the next three fields counts.
    pub kind: u32,
    /// Address in the host's memory.
    pub host: usize,
    /// Address in a device's memory.
    pub device: usize,
    /// Handle of an array.
    pub array: usize,
    /// Bytes from a row to the next one.
    pub pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy2D {
    /// Source.
    pub from: Memcpy2DSide,
    /// Target.
    pub to: Memcpy2DSide,
    /// Bytes of a row, and rows.
    pub size: [usize; 2],
}

/// Source or target of [`Memcpy3D`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3DSide {
    /// First column, in bytes, first row, first slice, and the level of detail.
    pub corner: [usize; 4],
    /// `CUmemorytype`, which says which of the next three fields counts.
    pub kind: u32,
    /// Address in the host's memory.
    pub host: usize,
    /// Address in a device's memory.
    pub device: usize,
    /// Handle of an array.
    pub array: usize,
    /// Must be zero. Between contexts it is the handle of a context.
    pub reserved: usize,
    /// Bytes from a row to the next one.
    pub pitch: usize,
    /// Rows from a slice to the next one.
    pub height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3D {
    /// Source.
    pub from: Memcpy3DSide,
    /// Target.
    pub to: Memcpy3DSide,
    /// Bytes of a row, rows of a slice, and slices.
    pub size: [usize; 3],
}

/// `CUarrayMapInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArrayMapInfo {
    /// `CUresourcetype`: an array, or one with levels.
    pub kind: u32,
    /// Handle of the array.
    pub array: usize,
    /// `CUarraySparseSubresourceType`: a level, or the end of the levels.
    pub part: u32,
    /// Region of the array, by its kind of part.
    pub region: [u64; 4],
    /// `CUmemOperationType`: 1 maps, 2 ends a mapping.
    pub operation: u32,
    /// `CUmemHandleType`.
    pub handles: u32,
    /// Handle of an allocation.
    pub handle: u64,
    /// Offset in the allocation, in bytes.
    pub offset: u64,
    /// Devices, flags, and what is reserved.
    pub rest: [u32; 4],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn sizes_are_those_of_the_header() {
        assert_eq!([size_of::<LaunchConfig>(), size_of::<LaunchAttribute>()], [56, 72]);
        assert_eq!(size_of::<LaunchParams>(), 56);
        assert_eq!([size_of::<KernelNodeParamsV1>(), size_of::<KernelNodeParams>()], [56, 72]);
        assert_eq!(size_of::<MemsetNodeParams>(), 40);
        assert_eq!([size_of::<BatchMemOp>(), size_of::<BatchMemOpNodeParams>()], [48, 32]);
        assert_eq!([size_of::<NodeParams>(), size_of::<UpdateResult>()], [256, 24]);
        assert_eq!([size_of::<Memcpy2D>(), size_of::<Memcpy3D>()], [128, 200]);
        assert_eq!(size_of::<ArrayMapInfo>(), 96);
    }

    #[test]
    fn fields_stand_where_the_header_has_them() {
        assert_eq!(offset_of!(LaunchConfig, stream), 32);
        assert_eq!(offset_of!(LaunchConfig, count), 48);
        assert_eq!(offset_of!(LaunchAttribute, value), 8);
        assert_eq!(offset_of!(LaunchParams, stream), 40);
        assert_eq!(offset_of!(KernelNodeParamsV1, params), 40);
        assert_eq!(offset_of!(KernelNodeParams, kernel), 56);
        assert_eq!(offset_of!(MemsetNodeParams, width), 24);
        assert_eq!(offset_of!(BatchMemOp, value), 16);
        assert_eq!(offset_of!(BatchMemOpNodeParams, ops), 16);
        assert_eq!(offset_of!(NodeParams, words), 16);
        assert_eq!(offset_of!(UpdateResult, node), 8);
        assert_eq!([offset_of!(Memcpy2DSide, host), offset_of!(Memcpy2D, to)], [24, 56]);
        assert_eq!([offset_of!(Memcpy3DSide, host), offset_of!(Memcpy3D, to)], [40, 88]);
        assert_eq!([offset_of!(Memcpy3DSide, pitch), offset_of!(Memcpy3D, size)], [72, 176]);
        assert_eq!(offset_of!(ArrayMapInfo, region), 24);
        assert_eq!([offset_of!(ArrayMapInfo, handle), offset_of!(ArrayMapInfo, rest)], [64, 80]);
    }
}
