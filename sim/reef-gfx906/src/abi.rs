//! Structures that pass between AMD's runtime and this library, from `hsakmttypes.h`.
//!
//! They are packed to 4 bytes, and the same for ROCr 5.2 and 6.1: what 6.1 adds to a node
//! (`xcc_count` and after) stands where 5.2 has reserved bytes.

/// Result of a function of the driver interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    Success = 0,
    InvalidParameter = 3,
    InvalidHandle = 4,
    InvalidNode = 5,
    NoMemory = 6,
    NotSupported = 11,
    OutOfResources = 13,
    WaitTimeout = 31,
}

/// Writes one result where the caller wants it.
pub(crate) fn put<T>(out: *mut T, value: T) -> Status {
    if out.is_null() {
        return Status::InvalidParameter;
    }
    // SAFETY: not null, and the interface of the thunk demands room for one `T`. Alignment is not
    // demanded.
    unsafe { out.write_unaligned(value) };
    Status::Success
}

/// Writes one result for each of `count` items.
pub(crate) fn put_each<T>(out: *mut T, count: u32, make: impl Fn(u32) -> T) -> Status {
    (0..count).fold(Status::Success, |status, index| match status {
        Status::Success => put(out.wrapping_add(index as usize), make(index)),
        error => error,
    })
}

/// `HsaVersionInfo`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// `HsaSystemProperties`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct System {
    pub(crate) nodes: u32,
    pub(crate) platform: [u32; 3],
}

/// `HsaNodeProperties`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Node {
    pub(crate) cpu_cores: u32,
    pub(crate) simds: u32,
    pub(crate) memory_banks: u32,
    pub(crate) caches: u32,
    pub(crate) links: u32,
    pub(crate) first_cpu: u32,
    pub(crate) first_simd: u32,
    pub(crate) capability: u32,
    pub(crate) waves_per_simd: u32,
    pub(crate) lds_kib: u32,
    pub(crate) gds_kib: u32,
    pub(crate) wave_size: u32,
    pub(crate) shader_banks: u32,
    pub(crate) arrays: u32,
    pub(crate) units_per_array: u32,
    pub(crate) simds_per_unit: u32,
    pub(crate) scratch_slots: u32,
    pub(crate) engine: u32,
    pub(crate) vendor: u16,
    pub(crate) device: u16,
    pub(crate) location: u32,
    pub(crate) local_memory: u64,
    pub(crate) gpu_mhz: u32,
    pub(crate) cpu_mhz: u32,
    pub(crate) render_minor: i32,
    pub(crate) marketing_name: [u16; 64],
    pub(crate) name: [u8; 64],
    pub(crate) engine_versions: u32,
    pub(crate) debug: u64,
    pub(crate) hive: u64,
    pub(crate) sdma_engines: u32,
    pub(crate) xgmi_engines: u32,
    pub(crate) queues_per_sdma: u8,
    pub(crate) compute_queues: u8,
    pub(crate) global_wave_syncs: u8,
    pub(crate) integrated: u8,
    pub(crate) domain: u32,
    pub(crate) unique: u64,
    pub(crate) vgpr_bytes_per_unit: u32,
    pub(crate) sgpr_bytes_per_unit: u32,
    pub(crate) xcc_count: u32,
    pub(crate) kfd_gpu: u32,
    pub(crate) family: u32,
}

/// `HsaMemoryProperties`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(4))]
pub(crate) struct MemoryBank {
    pub(crate) heap: u32,
    pub(crate) bytes: u64,
    pub(crate) flags: u32,
    pub(crate) width: u32,
    pub(crate) mhz: u32,
    pub(crate) base: u64,
}

/// `HsaCacheProperties`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Cache {
    pub(crate) processor: u32,
    pub(crate) level: u32,
    pub(crate) kib: u32,
    pub(crate) line: u32,
    pub(crate) lines_per_tag: u32,
    pub(crate) associativity: u32,
    pub(crate) latency: u32,
    pub(crate) kind: u32,
    pub(crate) siblings: [u32; 256],
}

/// `HsaIoLinkProperties`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(4))]
pub(crate) struct Link {
    pub(crate) kind: u32,
    pub(crate) version: [u32; 2],
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) weight: u32,
    pub(crate) latency: [u32; 2],
    pub(crate) bandwidth: [u32; 2],
    pub(crate) transfer: u32,
    pub(crate) flags: u32,
}

/// `HsaMemFlags`: a word of bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct MemoryFlags(pub(crate) u32);

impl MemoryFlags {
    /// An address space for the stacks of kernels; nothing of it is ever touched by the host.
    pub(crate) fn scratch(self) -> bool {
        self.0 & (1 << 9) != 0
    }

    /// The caller says where.
    pub(crate) fn fixed_address(self) -> bool {
        self.0 & (1 << 15) != 0
    }
}

/// `HsaQueueResource`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct QueueResource {
    pub(crate) id: u64,
    pub(crate) doorbell: u64,
    /// Input for AQL queues, output for SDMA queues.
    pub(crate) write_pointer: u64,
    pub(crate) read_pointer: u64,
    pub(crate) error_reason: u64,
}

/// `HsaSyncVar`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct SyncVariable {
    pub(crate) user_data: u64,
    pub(crate) bytes: u64,
}

/// `HsaEventDescriptor`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct EventDescriptor {
    pub(crate) kind: u32,
    pub(crate) node: u32,
    pub(crate) variable: SyncVariable,
}

/// `HsaEvent`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Event {
    pub(crate) id: u32,
    pub(crate) kind: u32,
    /// A union; the largest member has 20 bytes.
    pub(crate) data: [u32; 5],
    pub(crate) handle: u64,
    pub(crate) mailbox: u64,
    pub(crate) hardware_id: u32,
}

/// `HsaClockCounters`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Clocks {
    pub(crate) gpu: u64,
    pub(crate) cpu: u64,
    pub(crate) system: u64,
    pub(crate) system_hz: u64,
}

/// `HsaGpuTileConfig`; the two tables at its start are the caller's.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct TileConfig {
    pub(crate) tables: [u64; 2],
    pub(crate) configs: u32,
    pub(crate) macro_configs: u32,
    pub(crate) address_config: u32,
    pub(crate) banks: u32,
    pub(crate) ranks: u32,
    pub(crate) reserved: [u32; 7],
}

/// `HsaPointerInfo`.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct PointerInfo {
    pub(crate) kind: u32,
    pub(crate) node: u32,
    pub(crate) flags: MemoryFlags,
    pub(crate) host: u64,
    pub(crate) device: u64,
    pub(crate) bytes: u64,
    pub(crate) registered_nodes: u32,
    pub(crate) mapped_nodes: u32,
    pub(crate) registered: u64,
    pub(crate) mapped: u64,
    pub(crate) user_data: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The numbers are what a C program prints that includes the header of Debian's libhsakmt-dev
    /// 5.2.3 and 6.2.4.
    #[test]
    fn structures_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Version>(), 8);
        assert_eq!(size_of::<System>(), 16);
        assert_eq!(size_of::<Node>(), 356);
        assert_eq!(size_of::<MemoryBank>(), 32);
        assert_eq!(size_of::<Cache>(), 1056);
        assert_eq!(size_of::<Link>(), 48);
        assert_eq!(size_of::<MemoryFlags>(), 4);
        assert_eq!(size_of::<QueueResource>(), 40);
        assert_eq!(size_of::<EventDescriptor>(), 24);
        assert_eq!(size_of::<Event>(), 48);
        assert_eq!(size_of::<Clocks>(), 32);
        assert_eq!(size_of::<TileConfig>(), 64);
        assert_eq!(size_of::<PointerInfo>(), 68);
    }

    #[test]
    fn fields_of_a_node_are_where_the_header_has_them() {
        assert_eq!(offset_of!(Node, capability), 28);
        assert_eq!(offset_of!(Node, waves_per_simd), 32);
        assert_eq!(offset_of!(Node, shader_banks), 48);
        assert_eq!(offset_of!(Node, engine), 68);
        assert_eq!(offset_of!(Node, vendor), 72);
        assert_eq!(offset_of!(Node, local_memory), 80);
        assert_eq!(offset_of!(Node, render_minor), 96);
        assert_eq!(offset_of!(Node, marketing_name), 100);
        assert_eq!(offset_of!(Node, name), 228);
        assert_eq!(offset_of!(Node, engine_versions), 292);
        assert_eq!(offset_of!(Node, debug), 296);
        assert_eq!(offset_of!(Node, sdma_engines), 312);
        assert_eq!(offset_of!(Node, queues_per_sdma), 320);
        assert_eq!(offset_of!(Node, domain), 324);
        assert_eq!(offset_of!(Node, unique), 328);
        assert_eq!(offset_of!(Node, vgpr_bytes_per_unit), 336);
        assert_eq!(offset_of!(Node, xcc_count), 344);
        assert_eq!(offset_of!(Node, family), 352);
    }

    #[test]
    fn fields_of_the_others_are_where_the_header_has_them() {
        assert_eq!(offset_of!(MemoryBank, bytes), 4);
        assert_eq!(offset_of!(MemoryBank, base), 24);
        assert_eq!(offset_of!(Cache, kind), 28);
        assert_eq!(offset_of!(Link, flags), 44);
        assert_eq!(offset_of!(QueueResource, read_pointer), 24);
        assert_eq!(offset_of!(QueueResource, error_reason), 32);
        assert_eq!(offset_of!(EventDescriptor, variable), 8);
        assert_eq!(offset_of!(Event, handle), 4 + 24);
        assert_eq!(offset_of!(Event, mailbox), 4 + 32);
        assert_eq!(offset_of!(Event, hardware_id), 4 + 40);
        assert_eq!(offset_of!(TileConfig, address_config), 24);
        assert_eq!(offset_of!(PointerInfo, host), 12);
        assert_eq!(offset_of!(PointerInfo, registered_nodes), 36);
        assert_eq!(offset_of!(PointerInfo, mapped), 52);
        assert_eq!(offset_of!(PointerInfo, user_data), 60);
    }
}
