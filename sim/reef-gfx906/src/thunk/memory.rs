//! Allocating, registering and mapping memory.

use crate::abi::{MemoryFlags, PointerInfo, Status, put};
use crate::device::machine::device;
use crate::memory::{DEVICE_NODE, Region};

const ALLOCATED: u32 = 1;
const REGISTERED: u32 = 2;
/// Nodes that maps of memory list: there is one device.
static NODES: [u32; 1] = [DEVICE_NODE];

fn found(found: bool) -> Status {
    if found { Status::Success } else { Status::InvalidParameter }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtAllocMemory(
    node: u32,
    bytes: u64,
    flags: MemoryFlags,
    address: *mut u64,
) -> Status {
    if node > DEVICE_NODE {
        return Status::InvalidNode;
    }
    if address.is_null() {
        return Status::InvalidParameter;
    }
    // SAFETY: not null, and the interface demands an initialized address. It counts if the flags
    // ask for a certain one.
    let wanted = unsafe { address.read_unaligned() };
    match device().memory.allocate(node, bytes, flags, wanted) {
        Some(start) => put(address, start),
        None => Status::NoMemory,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtFreeMemory(address: u64, _bytes: u64) -> Status {
    found(device().memory.free(address))
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtAvailableMemory(_node: u32, bytes: *mut u64) -> Status {
    put(bytes, device().memory.available())
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtRegisterMemoryWithFlags(
    address: u64,
    bytes: u64,
    flags: MemoryFlags,
) -> Status {
    let good = address != 0 && bytes != 0 && address.checked_add(bytes).is_some();
    if good {
        device().memory.register(address, bytes, flags);
    }
    found(good)
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtRegisterMemory(address: u64, bytes: u64) -> Status {
    hsaKmtRegisterMemoryWithFlags(address, bytes, MemoryFlags::default())
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtRegisterMemoryToNodes(
    address: u64,
    bytes: u64,
    _count: u64,
    _nodes: *const u32,
) -> Status {
    hsaKmtRegisterMemory(address, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtDeregisterMemory(address: u64) -> Status {
    device().memory.deregister(address);
    Status::Success
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtMapMemoryToGPU(address: u64, _bytes: u64, alternate: *mut u64) -> Status {
    if !device().memory.map(address) {
        return Status::InvalidParameter;
    }
    if alternate.is_null() { Status::Success } else { put(alternate, address) }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtMapMemoryToGPUNodes(
    address: u64,
    bytes: u64,
    alternate: *mut u64,
    _flags: u32,
    _count: u64,
    _nodes: *const u32,
) -> Status {
    hsaKmtMapMemoryToGPU(address, bytes, alternate)
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtUnmapMemoryToGPU(address: u64) -> Status {
    device().memory.unmap(address);
    Status::Success
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtSetMemoryUserData(address: u64, user_data: u64) -> Status {
    found(device().memory.set_user_data(address, user_data))
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtQueryPointerInfo(address: u64, out: *mut PointerInfo) -> Status {
    match device().memory.find(address) {
        Some(region) => put(out, info(&region)),
        None => {
            put(out, info(&Region::nowhere()));
            Status::InvalidParameter
        }
    }
}

fn info(region: &Region) -> PointerInfo {
    let kind = match region {
        Region { bytes: 0, .. } => 0,
        Region { registrations: 0, .. } => ALLOCATED,
        _ => REGISTERED,
    };
    PointerInfo {
        kind,
        node: region.node,
        flags: region.flags,
        host: region.start,
        device: region.start,
        bytes: region.bytes,
        registered_nodes: 0,
        mapped_nodes: region.mapped.into(),
        registered: 0,
        mapped: NODES.as_ptr() as u64,
        user_data: region.user_data,
    }
}
