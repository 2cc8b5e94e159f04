//! Comparison of a variant with its kernel.

use super::builder::Built;
use super::cut::{MAX_ENTRIES, Measured, entries, groups};
use super::driver::calls as driver;
use super::driver::timing::Timing;
use super::kernels::Kernel;
use super::shape::{Guard, Plan, ShapeKey};
use crate::driver::calls;
use crate::stops::stop_context::MAP;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// `CU_FUNC_ATTRIBUTE_…`: bytes of memory for each thread, which spilled registers take; maximum
/// dynamic shared memory; part of the cache that is shared memory.
const LOCAL_BYTES: u32 = 3;
const MAX_SHARED: u32 = 8;
const CARVEOUT: u32 = 9;

/// Prepares a variant for launches of a shape, in the shape's context.
///
/// # Errors
///
/// The reason for which the kernel stays plain.
pub(super) fn fit(
    kernel: &Kernel,
    handle: usize,
    key: &ShapeKey,
    built: Built,
    plain: Duration,
) -> Result<Plan, String> {
    let function = function(kernel, handle)?;
    adapt(function, &built)?;
    let variant = built.function;
    let (own, of_variant) = (resident(function, key)?, resident(variant, key)?);
    if of_variant < own {
        return Err(format!(
            "{of_variant} blocks of its variant run at a time, and {own} of its own"
        ));
    }
    let measured = Measured { grid: key.grid, wave: wave(of_variant)?, plain };
    let (groups, guard) = match built.stops {
        None => (groups(measured.slices()?, 0), None),
        Some(stop_context) => {
            if measured.blocks() <= measured.wave && !built.has_preemption_points {
                return Err("all its blocks run at a time".into());
            }
            let slices = measured.stopped_slices(MAP, !built.may_be_sliced)?;
            let groups = groups(slices, MAP);
            if entries(&groups) > MAX_ENTRIES {
                return Err("its slices don't fit into the driver's queue".into());
            }
            (
                groups,
                Some(Guard {
                    stop_context,
                    has_preemption_points: built.has_preemption_points,
                    count: Default::default(),
                }),
            )
        }
    };
    let in_graph = built.may_be_sliced.then_some(measured);
    let (launches, sliced) = (AtomicU64::new(0), Mutex::new(Timing::default()));
    let (nothing, parameters) = (built.nothing, built.parameters);
    Ok(Plan { variant, nothing, parameters, groups, in_graph, guard, plain, launches, sliced })
}

/// Returns a launch's measured duration with its grid, and the number of its blocks that run at a
/// time. The kernel's context must be current.
///
/// # Errors
///
/// The reason for which that is not known.
pub(super) fn measured(
    kernel: &Kernel,
    handle: usize,
    key: &ShapeKey,
    plain: Duration,
) -> Result<Measured, String> {
    let resident = resident(function(kernel, handle)?, key)?;
    Ok(Measured { grid: key.grid, wave: wave(resident)?, plain })
}

/// Returns the number of blocks that run at a time, given those of a multiprocessor.
fn wave(resident: u32) -> Result<u64, String> {
    let ordinal = calls::device().ok_or("its device is not known")?;
    let units = driver::of_device(driver::MULTIPROCESSORS, ordinal).unwrap_or(0);
    Ok(u64::from(units) * u64::from(resident))
}

/// Returns the function of a kernel in the current context.
pub(super) fn function(kernel: &Kernel, handle: usize) -> Result<usize, String> {
    let mut function = handle;
    if kernel.is_of_library && driver::function_of(&mut function, handle) != Some(0) {
        return Err("the driver doesn't find its function".into());
    }
    Ok(function)
}

/// Gives a variant the attributes of its kernel.
pub(super) fn adapt(function: usize, built: &Built) -> Result<(), String> {
    check_parameters(function, built)?;
    let variant = built.function;
    if attribute(variant, LOCAL_BYTES)? > attribute(function, LOCAL_BYTES)? {
        return Err("its variant needs more memory for each thread".into());
    }
    for which in [MAX_SHARED, CARVEOUT] {
        let value = attribute(function, which)?;
        if attribute(variant, which)? != value
            && driver::set_attribute(variant, which, value) != Some(0)
        {
            return Err("its variant doesn't take its shared memory".into());
        }
    }
    Ok(())
}

/// Checks that the driver sees the parameters that the PTX has.
fn check_parameters(function: usize, built: &Built) -> Result<(), String> {
    let at = |index: usize| {
        let (mut offset, mut bytes) = (0, 0);
        let code = driver::parameter(function, index, &mut offset, &mut bytes)?;
        Some((code == 0).then_some((offset + bytes).next_multiple_of(8) as u64))
    };
    let Some(beyond) = at(built.parameters.len()) else { return Ok(()) }; // a driver before 12.4
    let last = match built.parameters.len() {
        0 => Some(0),
        count => at(count - 1).flatten(),
    };
    if beyond.is_some() || last != Some(built.bytes) {
        return Err("the driver sees other parameters than its PTX has".into());
    }
    Ok(())
}

fn attribute(function: usize, which: u32) -> Result<i32, String> {
    let mut value = 0;
    match driver::attribute(&mut value, which, function) {
        Some(0) => Ok(value),
        _ => Err(format!("the driver doesn't say attribute {which} of it")),
    }
}

/// Returns the number of blocks that run at a time on a multiprocessor.
fn resident(function: usize, key: &ShapeKey) -> Result<u32, String> {
    let threads =
        key.block.iter().try_fold(1_i32, |all, side| all.checked_mul(i32::try_from(*side).ok()?));
    let mut blocks = 0;
    let code = threads.and_then(|threads| {
        driver::occupancy(&mut blocks, function, threads, key.shared as usize, 0)
    });
    match u32::try_from(blocks) {
        Ok(blocks) if code == Some(0) && blocks > 0 => Ok(blocks),
        _ => Err("the driver doesn't say how many of its blocks run at a time".into()),
    }
}
