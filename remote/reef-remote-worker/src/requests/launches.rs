//! Launches of kernels.

use super::caller::{Caller, CallingThread};
use crate::state::lock::lock;
use crate::state::shared::Shared;
use reef_cuda_abi::codes::{INVALID_HANDLE, INVALID_VALUE};
use reef_cuda_abi::layouts::LaunchConfig;
use reef_remote_calls::{ATTRIBUTE_LEN, Kind, Launch, LaunchAttribute, MAX_PARAMS_LEN};
use reef_wire::{Error, Hot, Result};

/// Upper bound of a launch's attributes.
const MAX_ATTRIBUTES: usize = 64;

/// Launches a kernel.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn launch(caller: &mut Caller, lane: CallingThread, body: &[u8]) -> Result<u32> {
    let (launch, rest) = Launch::split(body)?;
    let count = launch.attributes.get() as usize;
    let too_many = || Error::Protocol(format!("launch: {count} attributes"));
    if count > MAX_ATTRIBUTES {
        return Err(too_many());
    }
    let (attributes, given) = rest.split_at_checked(count * ATTRIBUTE_LEN).ok_or_else(too_many)?;
    if given.len() > MAX_PARAMS_LEN {
        return Err(Error::Protocol(format!("launch: {} bytes of parameters", given.len())));
    }
    let function = lock(&caller.shared.handles).function(launch.function.get());
    let stream = caller.resolve(lane, Kind::Stream, launch.stream.get());
    let (function, layout, stream) = match (function, stream) {
        (Ok((0, _)), _) => return Ok(INVALID_HANDLE),
        (Ok((function, layout)), Ok(stream)) => (function, layout, stream),
        (Err(code), _) | (_, Err(code)) => return Ok(code),
    };
    let Some(attributes) = checked(&caller.shared, attributes) else { return Ok(INVALID_VALUE) };
    caller.params.set(given, layout.as_deref());
    let extra = caller.params.extra();
    let (places, extra) = match layout {
        Some(_) => (caller.params.places(), 0),
        None if launch.cooperative.get() != 0 => return Ok(INVALID_VALUE), // it takes no block
        None => (0, extra.as_ptr() as usize),
    };
    let grid = [launch.grid_x.get(), launch.grid_y.get(), launch.grid_z.get()];
    let block = [launch.block_x.get(), launch.block_y.get(), launch.block_z.get()];
    let shared = launch.shared.get();
    let [gx, gy, gz] = grid.map(|n| n as usize);
    let [bx, by, bz] = block.map(|n| n as usize);
    let functions = &caller.shared.driver.functions;
    if count > 0 {
        let attributes = crate::reader::words(&attributes);
        let attributes = attributes.as_ptr().cast();
        let config = LaunchConfig { grid, block, shared, stream, attributes, count: count as u32 };
        let config = &raw const config as usize;
        // SAFETY: a configuration of this function's, a kernel of the driver's, and parameters as
        // the driver has described them. What the kernel does with device memory is the program's.
        return Ok(unsafe { functions.launch_ex.call([config, function, places, extra]) });
    }
    let shared = shared as usize;
    // SAFETY: a kernel and a stream of the driver's, and parameters as the driver has described
    // them. What the kernel does with device memory is the program's.
    Ok(unsafe {
        if launch.cooperative.get() != 0 {
            functions
                .launch_cooperative
                .call([function, gx, gy, gz, bx, by, bz, shared, stream, places])
        } else {
            functions.launch.call([function, gx, gy, gz, bx, by, bz, shared, stream, places, extra])
        }
    })
}

/// Attributes in the driver's form, made of what they say. `None`: one is not passed on.
fn checked(shared: &Shared, attributes: &[u8]) -> Option<Vec<u8>> {
    let mut made = Vec::with_capacity(attributes.len());
    for attribute in attributes.as_chunks().0 {
        let attribute = LaunchAttribute::read(attribute)?;
        if let LaunchAttribute::AccessPolicyWindow { base, bytes, .. } = attribute
            && !shared.has(base, bytes)
        {
            return None;
        }
        made.extend(attribute.write());
    }
    Some(made)
}
