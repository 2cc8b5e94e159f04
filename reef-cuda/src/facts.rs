//! What devices there are, and what one can do.

use crate::driver::{BACKEND, Driver};
use cudarc::driver::sys::*;
use reef_core::{Error, Result};
use reef_gpu::{Facts, TickRate};
use std::ffi::{CStr, c_char, c_int, c_uint};

/// What the driver tells of an open device, beyond what all backends have.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub(crate) capability: (u32, u32),
    /// Memory comes from the driver's pool, so that freeing it doesn't wait.
    pub(crate) pools: bool,
    /// There is programmatic dependent launch: images for sm_90 have its instructions, and captures
    /// its edges from driver 12.3 on.
    pub(crate) starts_early: bool,
    /// Of streams, lowest and highest; smaller numbers go first.
    pub(crate) priorities: (c_int, c_int),
}

/// Device number `ordinal`.
pub(crate) fn find(driver: &Driver, ordinal: usize) -> Result<CUdevice> {
    let have = count(driver)?;
    if ordinal >= have {
        return Err(Error::NotFound(format!("no device {BACKEND}:{ordinal} ({have} found)")));
    }
    let mut device = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.cuDeviceGet(&mut device, ordinal as c_int) }?;
    Ok(device)
}

/// How many devices there are.
pub(crate) fn count(driver: &Driver) -> Result<usize> {
    let mut count = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.cuDeviceGetCount(&mut count) }?;
    Ok(count as usize)
}

/// Reads both; the context must be current.
pub(crate) fn read(driver: &Driver, device: CUdevice) -> Result<(Facts, Own)> {
    use CUdevice_attribute::*;
    let get = |attribute: CUdevice_attribute| attribute_of(driver, device, attribute);
    let own = Own::read(driver, device)?;
    let facts = Facts {
        name: name(driver, device)?,
        uuid: uuid(driver, device),
        memory: memory(driver, device),
        units: get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        be_units: get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        capped_units: None,
        blocks_per_unit: get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        threads_per_unit: get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        registers_per_unit: get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        shared_per_unit: get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        shared_per_block: get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        wave: 32,
        tensor_cores: own.capability >= (8, 0),
        writes_values: driver.cuStreamWriteValue32_v2.is_some(),
        writes_without_kernels: driver.cuStreamWriteValue32_v2.is_some(),
        waits_values: driver.cuStreamWaitValue32_v2.is_some(),
        tick_rate: TickRate::Known(1_000_000_000),
        graphs: true,
        starts_early: own.starts_early,
        features: features(driver, &own)?,
    };
    Ok((facts, own))
}

impl Own {
    fn read(driver: &Driver, device: CUdevice) -> Result<Self> {
        use CUdevice_attribute::*;
        let get = |attribute: CUdevice_attribute| attribute_of(driver, device, attribute);
        let (mut lowest, mut highest) = (0, 0);
        // SAFETY: the pointers are valid for the call.
        unsafe { driver.cuCtxGetStreamPriorityRange(&mut lowest, &mut highest) }?;
        let async_memory = driver.cuMemAllocAsync.is_some() && driver.cuMemFreeAsync.is_some();
        let capability = (
            get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let can_launch = driver.cuLaunchKernelEx.is_some() && driver.version()? >= 12030;
        Ok(Self {
            capability,
            starts_early: capability.0 == 9 && can_launch,
            pools: async_memory && get(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 1,
            priorities: (lowest, highest),
        })
    }
}

/// What there is beyond the least that is needed, for people to read.
fn features(driver: &Driver, own: &Own) -> Result<Vec<String>> {
    let (major, minor) = own.capability;
    let version = driver.version()?;
    let first = [
        format!("sm_{major}{minor}"),
        format!("driver {}.{}", version / 1000, version % 1000 / 10),
        "graphs".into(),
    ];
    let found = [
        (driver.cuStreamWriteValue32_v2.is_some(), "stream memory operations"),
        (own.pools, "memory pools"),
        (own.starts_early, "programmatic dependent launch"),
        (driver.cuGreenCtxCreate.is_some(), "green contexts"),
    ];
    let found = found.into_iter().filter(|(there, _)| *there).map(|(_, name)| name.into());
    Ok(first.into_iter().chain(found).collect())
}

fn attribute_of(driver: &Driver, device: CUdevice, attribute: CUdevice_attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.cuDeviceGetAttribute(&mut value, attribute as c_uint, device) }?;
    Ok(value as u32)
}

fn name(driver: &Driver, device: CUdevice) -> Result<String> {
    let mut name: [c_char; 128] = [0; 128];
    // SAFETY: the buffer is as long as we say, and the driver ends the name with a NUL.
    unsafe {
        driver.cuDeviceGetName(name.as_mut_ptr(), 127, device)?;
        Ok(CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
    }
}

/// Bytes of device memory, if the driver says so.
fn memory(driver: &Driver, device: CUdevice) -> Option<u64> {
    let mut bytes = 0;
    // SAFETY: the pointer is valid for the call.
    let said = unsafe { driver.cuDeviceTotalMem_v2(&mut bytes, device) };
    said.ok().and((bytes > 0).then_some(bytes as u64))
}

/// What names the device in every process: of the MIG instance, where there is one.
fn uuid(driver: &Driver, device: CUdevice) -> Option<[u8; 16]> {
    let mut uuid = [0; 16];
    // SAFETY: the pointer is valid for the call, for 16 bytes.
    let said = unsafe { driver.cuDeviceGetUuid_v2(&mut uuid, device) }
        // SAFETY: as above.
        .or_else(|_| unsafe { driver.cuDeviceGetUuid(&mut uuid, device) });
    said.is_ok().then_some(uuid)
}

/// One line about a device, without opening it.
pub(crate) fn describe(driver: &Driver, ordinal: usize) -> Result<String> {
    use CUdevice_attribute::*;
    let device = find(driver, ordinal)?;
    let get = |attribute| attribute_of(driver, device, attribute);
    let major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let units = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    Ok(format!("{}, sm_{major}{minor}, {units} multiprocessors", name(driver, device)?))
}
