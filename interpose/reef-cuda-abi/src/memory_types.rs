//! Types of memory, as `CUmemorytype` numbers them.

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`: the attribute of an address that is its type of memory.
pub const ATTRIBUTE: u32 = 2;
/// `CU_MEMORYTYPE_HOST`.
pub const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`.
pub const DEVICE: u32 = 2;
/// `CU_MEMORYTYPE_ARRAY`.
pub const ARRAY: u32 = 3;
/// `CU_MEMORYTYPE_UNIFIED`: the driver decides by the address.
pub const UNIFIED: u32 = 4;
