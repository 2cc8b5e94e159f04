//! Launches: parameters are packed as they lie in the kernel's memory.

use crate::calls::export::{check, ptsz, stream};
use crate::refused::refuse;
use crate::session::session;
use crate::state::functions::Function;
use crate::state::functions::Functions;
use reef_cuda_abi::codes::*;
use reef_cuda_abi::layouts::LaunchConfig;
use reef_remote_calls::{ATTRIBUTE_LEN, Launch, LaunchAttribute, MAX_PARAMS_LEN};
use reef_replay::Op;
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Hot, hot_bytes};

ptsz! {
    cuLaunchKernel / cuLaunchKernel_ptsz(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        on: usize, params: *const *const u8, extra: *const usize
    ) = launch;
    cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        on: usize, params: *const *const u8
    ) = cooperative;
    cuLaunchKernelEx / cuLaunchKernelEx_ptsz(
        config: *const LaunchConfig, function: u64, params: *const *const u8, extra: *const usize
    ) = launch_ex;
}

/// Packs the parameters of a kernel.
///
/// # Errors
///
/// `INVALID_VALUE` for a kernel with parameters and a call without.
///
/// # Safety
///
/// `params` has an address for each parameter, or `extra` has them all as one block.
pub(crate) unsafe fn pack<T>(
    function: &Function,
    params: *const *const u8,
    extra: *const usize,
    then: impl FnOnce(&[u8]) -> Result<T, u32>,
) -> Result<T, u32> {
    if !extra.is_null() {
        // SAFETY: `extra` is not null, and `# Safety` demands all parameters as one block there.
        return then(unsafe { block(extra) }?);
    }
    let Some(layout) = &function.layout else {
        return Err(refuse(c"a launch on a server whose driver is older than CUDA 12.4"));
    };
    if layout.is_empty() {
        return then(&[]);
    }
    if params.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut small = [0; 512];
    let mut large = Vec::new();
    let packed = match small.get_mut(..function.len) {
        Some(packed) => packed,
        None => {
            large.resize(function.len, 0);
            &mut large[..]
        }
    };
    for (at, (offset, size)) in layout.iter().enumerate() {
        let (offset, size) = (*offset as usize, *size as usize);
        // SAFETY: `params` is not null, and `# Safety` demands an address for each parameter:
        // `layout` has one entry for each.
        let from = unsafe { params.add(at).read() };
        // SAFETY: a parameter of this size, and a place within the function's length.
        unsafe { std::ptr::copy_nonoverlapping(from, packed[offset..].as_mut_ptr(), size) };
    }
    then(packed)
}

/// Block of all parameters: `CU_LAUNCH_PARAM_BUFFER_POINTER` and `…_SIZE`.
unsafe fn block<'a>(extra: *const usize) -> Result<&'a [u8], u32> {
    let (mut at, mut len) = (0, 0);
    for pair in 0.. {
        // SAFETY: the driver demands names and values in pairs, which end with
        // `CU_LAUNCH_PARAM_END`, a zero. No earlier name was zero.
        let (name, value) = unsafe { (*extra.add(2 * pair), extra.add(2 * pair + 1)) };
        match name {
            0 => break,
            // SAFETY: a value follows each name but the last one.
            1 => at = unsafe { *value },
            // SAFETY: the driver demands that this value is the address of a `size_t`, the block's
            // length.
            2 => len = unsafe { *(*value as *const usize) },
            _ => return Err(INVALID_VALUE),
        }
    }
    if len > MAX_PARAMS_LEN || at == 0 && len > 0 {
        return Err(INVALID_VALUE);
    }
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: the driver demands a block of `len` bytes at `at`, which is not null. It is read
    // before the call returns.
    Ok(unsafe { std::slice::from_raw_parts(at as *const u8, len) })
}

unsafe fn send(
    function: u64,
    head: Launch,
    attributes: &[u8],
    params: *const *const u8,
    extra: *const usize,
) -> Result<(), u32> {
    let session = session()?;
    let known = Functions::all().get(function).ok_or(INVALID_HANDLE)?;
    let sizes = [head.grid_x, head.grid_y, head.grid_z, head.block_x, head.block_y, head.block_z];
    if sizes.iter().any(|size| size.get() == 0) {
        return Err(INVALID_VALUE);
    }
    let mut shape = std::borrow::Cow::Borrowed(hot_bytes(&head));
    if !attributes.is_empty() {
        shape.to_mut().extend_from_slice(attributes);
    }
    // SAFETY: cuLaunchKernel and its like demand of the program an address for each parameter in
    // `params`, or a block in `extra`.
    unsafe {
        pack(&known, params, extra, |packed| {
            let op = Op { kind: Launch::OP, shape: &shape, words: packed, payload: &[] };
            check(session.quiet(&op))
        })
    }
}

/// Launches a kernel whose parameters lie there as they do in the kernel's memory.
///
/// # Errors
///
/// The driver's code.
pub(super) fn send_packed(
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    on: u64,
    packed: &[u8],
) -> Result<(), u32> {
    let head = head(function, grid, block, shared, on);
    let op = Op { kind: Launch::OP, shape: hot_bytes(&head), words: packed, payload: &[] };
    check(session()?.quiet(&op))
}

fn head(function: u64, grid: [u32; 3], block: [u32; 3], shared: u32, on: u64) -> Launch {
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) =
        (grid.map(U32::new), block.map(U32::new));
    Launch {
        function: U64::new(function),
        stream: U64::new(on),
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        shared: U32::new(shared),
        attributes: U32::new(0),
        cooperative: U32::new(0),
        reserved: U32::new(0),
    }
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn launch(
    is_ptsz: bool,
    function: u64,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    on: usize,
    params: *const *const u8,
    extra: *const usize,
) -> Result<(), u32> {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let head = head(function, grid, block, shared, stream(on, is_ptsz));
    // SAFETY: cuLaunchKernel demands an address for each parameter in `params`, or a block in
    // `extra`. Handles are passed on unread.
    unsafe { send(function, head, &[], params, extra) }
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn cooperative(
    is_ptsz: bool,
    function: u64,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    on: usize,
    params: *const *const u8,
) -> Result<(), u32> {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let head = head(function, grid, block, shared, stream(on, is_ptsz));
    let head = Launch { cooperative: U32::new(1), ..head };
    // SAFETY: cuLaunchCooperativeKernel demands an address for each parameter in `params`. Handles
    // are passed on unread.
    unsafe { send(function, head, &[], params, std::ptr::null()) }
}

unsafe fn launch_ex(
    is_ptsz: bool,
    config: *const LaunchConfig,
    function: u64,
    params: *const *const u8,
    extra: *const usize,
) -> Result<(), u32> {
    if config.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cuLaunchKernelEx demands a `CUlaunchConfig`, which the program does not
    // change during the call.
    let &LaunchConfig { grid, block, shared, stream: on, attributes, count } = unsafe { &*config };
    let attributes = match count {
        0 => &[][..],
        _ if attributes.is_null() => return Err(INVALID_VALUE),
        // SAFETY: not null, and cuLaunchKernelEx demands `count` attributes of `ATTRIBUTE_LEN`
        // bytes in the configuration.
        _ => unsafe {
            std::slice::from_raw_parts(attributes.cast::<u8>(), count as usize * ATTRIBUTE_LEN)
        },
    };
    let mut all = attributes.as_chunks().0.iter();
    if all.any(|attribute| LaunchAttribute::read(attribute).is_none()) {
        return Err(refuse(c"cuLaunchKernelEx with an event, a node or an unknown attribute"));
    }
    let head = head(function, grid, block, shared, stream(on, is_ptsz));
    let head = Launch { attributes: U32::new(count), ..head };
    // SAFETY: cuLaunchKernelEx demands an address for each parameter in `params`, or a block in
    // `extra`. Handles are passed on unread.
    unsafe { send(function, head, attributes, params, extra) }
}
