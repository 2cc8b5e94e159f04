//! The machine as the runtime sees it: node 0 is the host, node 1 an MI50.

use crate::abi::{Cache, Link, MemoryBank, Node, Status, System, TileConfig, put, put_each};
use crate::device::machine::device;
use crate::memory::{DEVICE_BYTES, DEVICE_NODE};

const NAME: &str = "AMD Instinct MI50 (software)";
/// Watch points and doorbells of 64 bits (type 2), SRAM with ECC.
const CAPABILITY: u32 = 0x0400_2280;
const HEAP_SYSTEM: u32 = 0;
const HEAP_DEVICE: u32 = 2;
const HEAP_LDS: u32 = 4;
const LINK_PCI: u32 = 2;
/// The first SIMD has this processor number.
const FIRST_SIMD: u32 = 0x8000_1000;

#[unsafe(no_mangle)]
extern "C" fn hsaKmtAcquireSystemProperties(system: *mut System) -> Status {
    put(system, System { nodes: 2, platform: [0; 3] })
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtReleaseSystemProperties() -> Status {
    Status::Success
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetNodeProperties(node: u32, out: *mut Node) -> Status {
    match node {
        0 => put(out, host()),
        DEVICE_NODE => put(out, mi50(device().units())),
        _ => Status::InvalidNode,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetNodeMemoryProperties(node: u32, count: u32, out: *mut MemoryBank) -> Status {
    let host = MemoryBank { width: 64, mhz: 3200, ..bank(HEAP_SYSTEM, host_bytes()) };
    let device = MemoryBank { width: 4096, mhz: 1000, ..bank(HEAP_DEVICE, DEVICE_BYTES) };
    let lds = MemoryBank { base: 0x4000_0000_0000_0000, ..bank(HEAP_LDS, 64 << 10) };
    match node {
        0 => put_each(out, count.min(1), |_| host),
        DEVICE_NODE => put_each(out, count.min(2), |index| [device, lds][index as usize]),
        _ => Status::InvalidNode,
    }
}

fn bank(heap: u32, bytes: u64) -> MemoryBank {
    MemoryBank { heap, bytes, ..MemoryBank::default() }
}

/// The host's memory.
fn host_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram * u64::from(system.mem_unit)
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetNodeCacheProperties(
    node: u32,
    processor: u32,
    count: u32,
    out: *mut Cache,
) -> Status {
    let (kind, processor) = match node {
        0 => (DATA | CPU, processor),
        DEVICE_NODE => (DATA | DEVICE, FIRST_SIMD),
        _ => return Status::InvalidNode,
    };
    put_each(out, count, |index| Cache {
        processor,
        level: index + 1,
        kib: if index == 0 { 16 } else { 4096 },
        line: 64,
        lines_per_tag: 1,
        associativity: 0,
        latency: 0,
        kind,
        siblings: [0; 256],
    })
}

const DATA: u32 = 1;
const CPU: u32 = 1 << 2;
const DEVICE: u32 = 1 << 3;

#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetNodeIoLinkProperties(node: u32, count: u32, out: *mut Link) -> Status {
    if node > DEVICE_NODE {
        return Status::InvalidNode;
    }
    let (from, to) = (node, DEVICE_NODE - node);
    put_each(out, count.min(1), |_| Link {
        kind: LINK_PCI,
        from,
        to,
        weight: 20,
        flags: 1,
        ..Link::default()
    })
}

/// Leaves the caller's tables empty: there are no textures.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetTileConfig(_node: u32, config: *mut TileConfig) -> Status {
    if config.is_null() {
        return Status::InvalidParameter;
    }
    // SAFETY: not null, and the interface demands a configuration, whose tables HSA's runtime has
    // filled in.
    let before = unsafe { config.read_unaligned() };
    let none = TileConfig { configs: 0, macro_configs: 0, banks: 0, ranks: 0, ..before };
    put(config, TileConfig { address_config: 0x1000_0444, ..none })
}

fn nothing() -> Node {
    // SAFETY: a node is made of integers, and 0 is a value of each.
    unsafe { std::mem::zeroed() }
}

fn host() -> Node {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    Node {
        cpu_cores: cores,
        memory_banks: 1,
        caches: 1,
        links: 1,
        cpu_mhz: 3000,
        name: name(b"CPU"),
        ..nothing()
    }
}

fn mi50(units: u32) -> Node {
    let shader_banks = if units.is_multiple_of(4) { 4 } else { 1 };
    Node {
        simds: 4 * units,
        memory_banks: 2,
        caches: 2,
        links: 1,
        first_simd: FIRST_SIMD,
        capability: CAPABILITY,
        waves_per_simd: 10,
        lds_kib: 64,
        wave_size: 64,
        shader_banks,
        arrays: 1,
        units_per_array: units / shader_banks,
        simds_per_unit: 4,
        scratch_slots: 32,
        // Microcode 472, version 9.0.6.
        engine: 472 | 9 << 10 | 6 << 24,
        vendor: 0x1002,
        device: 0x66a1,
        location: 0x300,
        local_memory: DEVICE_BYTES,
        gpu_mhz: 1725,
        cpu_mhz: 3000,
        render_minor: 128,
        marketing_name: std::array::from_fn(|at| NAME.as_bytes().get(at).map_or(0, |&c| c.into())),
        name: name(b"gfx906"),
        engine_versions: 145,
        sdma_engines: 2,
        queues_per_sdma: 8,
        compute_queues: 24,
        global_wave_syncs: 64,
        unique: 0x0123_4567_89ab_cdef,
        vgpr_bytes_per_unit: 256 << 10,
        sgpr_bytes_per_unit: 16 << 10,
        xcc_count: 1,
        kfd_gpu: 2,
        family: 141,
        ..nothing()
    }
}

fn name(text: &[u8]) -> [u8; 64] {
    std::array::from_fn(|at| text.get(at).copied().unwrap_or(0))
}
