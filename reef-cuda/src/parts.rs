//! Parts of the device by multiprocessors (green contexts). Streams of a part run on its
//! multiprocessors alone; others, of the primary context, on all. A graph runs where its launches
//! were captured, in whatever stream it is launched (seen with driver 580).
//!
//! *Parts* are made when a graph is first captured for them, and stay until the device is closed.
//! Real-time ones begin with the first multiprocessor, others end with the last, so that they may
//! overlap.
//!
//! A device may also be *split* in two, one part for each class of work. Nothing is preempted
//! between them. It is here to be compared with.

use crate::driver::{BACKEND, Driver};
use cudarc::driver::sys::*;
use parking_lot::Mutex;
use reef_core::{Error, Result};
use reef_gpu::StreamKind;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

/// `CU_DEV_RESOURCE_TYPE_SM`
const MULTIPROCESSORS: c_uint = 1;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, which every green context must have.
const DEFAULT_STREAM: c_uint = 1;
/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: c_uint = 1;
/// Multiprocessors of a group, of which parts are made: what devices of capability 9.0 allow at
/// least. Others allow less.
const GROUP: c_uint = 8;
/// Maximum number of groups of a device.
const MAX_GROUPS: usize = 64;

/// Parts that were asked for.
#[derive(Default)]
pub(crate) struct Parts(Mutex<Vec<PartEntry>>);

/// Kind and size in percent of a part, and the part; `None`: the driver refused it.
type PartEntry = (StreamKind, u32, Option<Arc<Part>>);

impl Parts {
    /// Returns the part of this size in percent for streams of this kind, or `None` if there can't
    /// be one.
    pub(crate) fn get(
        &self,
        driver: &'static Driver,
        device: CUdevice,
        kind: StreamKind,
        percent: u32,
    ) -> Option<Arc<Part>> {
        let mut made = self.0.lock();
        if let Some((.., part)) = made.iter().find(|(of, size, _)| (*of, *size) == (kind, percent))
        {
            return part.clone();
        }
        let part = groups(driver, device)
            .and_then(|groups| Part::of(driver, device, &mut chosen(groups, kind, percent)))
            .ok()
            .map(Arc::new);
        made.push((kind, percent, part.clone()));
        part
    }
}

/// Some of the multiprocessors.
pub(crate) struct Part {
    driver: &'static Driver,
    raw: CUgreenCtx,
}

/// A part for real-time work and the rest for best-effort work.
pub(crate) struct Split {
    pub(crate) real_time: Part,
    pub(crate) best_effort: Part,
}

impl Split {
    /// Gives real-time work at least `units` multiprocessors.
    pub(crate) fn new(driver: &'static Driver, device: CUdevice, units: u32) -> Result<Self> {
        let [part, rest] = divide(driver, device, "split", units)?;
        Ok(Self {
            real_time: Part::of(driver, device, &mut [part])?,
            best_effort: Part::of(driver, device, &mut [rest])?,
        })
    }
}

impl Part {
    /// The multiprocessors of all `resources`.
    fn of(
        driver: &'static Driver,
        device: CUdevice,
        resources: &mut [CUdevResource],
    ) -> Result<Self> {
        let count = resources.len() as c_uint;
        let (mut description, mut raw) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the pointers are valid for the calls, and there are `count` resources.
        unsafe {
            driver.cuDevResourceGenerateDesc(&mut description, resources.as_mut_ptr(), count)?;
            driver.cuGreenCtxCreate(&mut raw, description, device, DEFAULT_STREAM)?;
        }
        Ok(Self { driver, raw })
    }

    /// Opens a stream that runs on these.
    pub(crate) fn stream(&self, priority: c_int) -> Result<CUstream> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call, the context is there.
        unsafe {
            self.driver.cuGreenCtxStreamCreate(&mut stream, self.raw, NON_BLOCKING, priority)
        }?;
        Ok(stream)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: made once; streams are closed before.
        let _ = unsafe { self.driver.cuGreenCtxDestroy(self.raw) };
    }
}

/// Returns whether this driver divides this device into groups.
pub(crate) fn has_parts(driver: &Driver, device: CUdevice) -> bool {
    has_calls(driver) && groups(driver, device).is_ok_and(|groups| groups.len() > 1)
}

/// Returns whether the driver has the calls for parts.
fn has_calls(driver: &Driver) -> bool {
    driver.cuDeviceGetDevResource.is_some()
        && driver.cuDevSmResourceSplitByCount.is_some()
        && driver.cuDevResourceGenerateDesc.is_some()
        && driver.cuGreenCtxCreate.is_some()
        && driver.cuGreenCtxStreamCreate.is_some()
}

/// All multiprocessors of the device.
fn whole(driver: &Driver, device: CUdevice) -> Result<CUdevResource> {
    // SAFETY: plain data, filled by the driver below.
    let mut all: CUdevResource = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.cuDeviceGetDevResource(device, &mut all, MULTIPROCESSORS) }?;
    Ok(all)
}

/// Returns the device's multiprocessors in groups, in order; the last has what is left.
fn groups(driver: &Driver, device: CUdevice) -> Result<Vec<CUdevResource>> {
    let all = whole(driver, device)?;
    // SAFETY: plain data, filled by the driver below.
    let mut rest: CUdevResource = unsafe { std::mem::zeroed() };
    // SAFETY: an array of plain data, for which zeros are a value; the driver fills it in below.
    let mut groups: [CUdevResource; MAX_GROUPS] = unsafe { std::mem::zeroed() };
    let mut count = MAX_GROUPS as c_uint;
    // SAFETY: the pointers are valid for the call, with room for `count` groups.
    unsafe {
        driver.cuDevSmResourceSplitByCount(
            groups.as_mut_ptr(),
            &mut count,
            &all,
            &mut rest,
            0,
            GROUP,
        )?;
    }
    let groups = groups[..MAX_GROUPS.min(count as usize)].iter().copied();
    let rest = (multiprocessors(&rest) > 0).then_some(rest);
    Ok(groups.chain(rest).collect())
}

/// Chooses about `percent` of the multiprocessors: the first groups for real-time work, else the
/// last ones, and at least one.
fn chosen(mut groups: Vec<CUdevResource>, kind: StreamKind, percent: u32) -> Vec<CUdevResource> {
    let all: u32 = groups.iter().map(multiprocessors).sum();
    if kind == StreamKind::BestEffort {
        groups.reverse();
    }
    let mut have = 0;
    let nearest = groups.iter().take_while(|group| {
        // A group belongs to it if more than half of it does.
        let half = have + multiprocessors(group) / 2;
        have += multiprocessors(group);
        u64::from(half) * 100 < u64::from(all) * u64::from(percent)
    });
    let count = nearest.count().max(1);
    groups.truncate(count);
    groups
}

/// Divides the device into at least `units` multiprocessors, and the rest; `option` stands in
/// errors.
fn divide(
    driver: &'static Driver,
    device: CUdevice,
    option: &str,
    units: u32,
) -> Result<[CUdevResource; 2]> {
    if !has_calls(driver) {
        let what = format!("{option}: green contexts, which drivers have from CUDA 12.5 on");
        return Err(Error::Unsupported { backend: BACKEND, what });
    }
    // SAFETY: plain data, filled by the driver below.
    let [mut part, mut rest]: [CUdevResource; 2] = unsafe { std::mem::zeroed() };
    let all = whole(driver, device)?;
    let mut parts = 1;
    // SAFETY: the pointers are valid for the call.
    let divided = unsafe {
        driver.cuDevSmResourceSplitByCount(&mut part, &mut parts, &all, &mut rest, 0, units)
    };
    let why = match divided {
        Ok(()) if parts > 0 => return Ok([part, rest]),
        Ok(()) => String::new(),
        Err(error) => format!(" ({error})"),
    };
    let have = multiprocessors(&all);
    Err(Error::invalid(
        format!("{BACKEND} option {option}"),
        format!("must be a part of {have} multiprocessors, got {units}{why}"),
    ))
}

fn multiprocessors(resource: &CUdevResource) -> u32 {
    // SAFETY: the driver has filled it in as one of multiprocessors, whose count comes first.
    unsafe { resource.__bindgen_anon_1.sm.smCount }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(units: u32) -> CUdevResource {
        // SAFETY: plain data.
        let mut resource: CUdevResource = unsafe { std::mem::zeroed() };
        resource.__bindgen_anon_1.sm.smCount = units;
        resource
    }

    /// Sizes of the groups of a part of an H200.
    fn sizes(kind: StreamKind, percent: u32) -> Vec<u32> {
        let mut groups = vec![group(8); 15];
        groups.push(group(12));
        chosen(groups, kind, percent).iter().map(multiprocessors).collect()
    }

    #[test]
    fn parts_are_the_first_and_the_last_multiprocessors() {
        assert_eq!(sizes(StreamKind::RealTime, 79), [8; 13]);
        assert_eq!(sizes(StreamKind::RealTime, 73), [8; 12]);
        assert_eq!(sizes(StreamKind::BestEffort, 21), [12, 8, 8]);
        assert_eq!(sizes(StreamKind::BestEffort, 40), [12, 8, 8, 8, 8, 8]);
        for kind in [StreamKind::RealTime, StreamKind::BestEffort] {
            assert_eq!(sizes(kind, 100).iter().sum::<u32>(), 132);
            assert_eq!(sizes(kind, 1).len(), 1, "never none");
        }
    }
}
