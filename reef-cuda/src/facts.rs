//! The devices that there are, and their features.

use crate::driver::{BACKEND, Driver};
use crate::parts::has_parts;
use cudarc::driver::sys::*;
use reef_core::{Error, Result};
use reef_gpu::{Facts, TickRate};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt;

/// A compute capability, such as 9.0; ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Capability {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl Capability {
    pub(crate) const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    fn read(driver: &Driver, device: CUdevice) -> Result<Self> {
        use CUdevice_attribute::*;
        Ok(Self {
            major: attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        })
    }

    /// 90 for 9.0, as in `sm_90`.
    pub(crate) fn number(self) -> u32 {
        self.major * 10 + self.minor
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Facts of an open device that only this backend needs.
#[derive(Debug, Clone)]
pub(crate) struct CudaFacts {
    pub(crate) capability: Capability,
    /// Memory comes from the driver's pool, so that freeing it doesn't wait.
    pub(crate) pools: bool,
    /// There is programmatic dependent launch: images for sm_90 have its instructions, and captures
    /// its edges from driver 12.3 on.
    pub(crate) starts_early: bool,
    /// Priorities of streams, lowest and highest; smaller numbers go first.
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

/// Returns the number of devices.
pub(crate) fn count(driver: &Driver) -> Result<usize> {
    let mut count = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.cuDeviceGetCount(&mut count) }?;
    Ok(count as usize)
}

/// Reads both; the context must be current.
pub(crate) fn read(driver: &Driver, device: CUdevice) -> Result<(Facts, CudaFacts)> {
    use CUdevice_attribute::*;
    let get = |attribute: CUdevice_attribute| attribute_of(driver, device, attribute);
    let own = CudaFacts::read(driver, device)?;
    let facts = Facts {
        name: name(driver, device)?,
        uuid: uuid(driver, device),
        memory: memory(driver, device),
        units: get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        be_units: get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        // With two, half of the blocks begin next to real-time ones (H200, docs/lab/nvidia.md).
        padding_per_unit: 1,
        blocks_per_unit: get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        threads_per_unit: get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        registers_per_unit: get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        shared_per_unit: get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        shared_per_block: get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        wave: 32,
        tensor_cores: own.capability >= Capability::new(8, 0),
        writes_values: driver.cuStreamWriteValue32_v2.is_some(),
        writes_without_kernels: driver.cuStreamWriteValue32_v2.is_some(),
        waits_values: driver.cuStreamWaitValue32_v2.is_some(),
        tick_rate: TickRate::Known(1_000_000_000),
        graphs: true,
        starts_early: own.starts_early,
        parts: has_parts(driver, device),
        features: features(driver, &own)?,
    };
    Ok((facts, own))
}

impl CudaFacts {
    fn read(driver: &Driver, device: CUdevice) -> Result<Self> {
        use CUdevice_attribute::*;
        let get = |attribute: CUdevice_attribute| attribute_of(driver, device, attribute);
        let (mut lowest, mut highest) = (0, 0);
        // SAFETY: the pointers are valid for the call.
        unsafe { driver.cuCtxGetStreamPriorityRange(&mut lowest, &mut highest) }?;
        let async_memory = driver.cuMemAllocAsync.is_some() && driver.cuMemFreeAsync.is_some();
        let capability = Capability::read(driver, device)?;
        let can_launch = driver.cuLaunchKernelEx.is_some() && driver.version()? >= 12030;
        Ok(Self {
            capability,
            starts_early: capability.major == 9 && can_launch,
            pools: async_memory && get(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 1,
            priorities: (lowest, highest),
        })
    }
}

/// Features beyond the required ones, for people to read.
fn features(driver: &Driver, own: &CudaFacts) -> Result<Vec<String>> {
    let version = driver.version()?;
    let first = [
        format!("sm_{}", own.capability.number()),
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

/// Identifier of the device that is the same in every process: of the MIG instance, where there is
/// one.
fn uuid(driver: &Driver, device: CUdevice) -> Option<[u8; 16]> {
    let mut uuid = [0; 16];
    // SAFETY: the pointer is valid for the call, for 16 bytes.
    let said = unsafe { driver.cuDeviceGetUuid_v2(&mut uuid, device) }
        // SAFETY: the pointer is valid for the call, for the same 16 bytes.
        .or_else(|_| unsafe { driver.cuDeviceGetUuid(&mut uuid, device) });
    said.is_ok().then_some(uuid)
}

/// One line about a device, without opening it.
pub(crate) fn describe(driver: &Driver, ordinal: usize) -> Result<String> {
    let device = find(driver, ordinal)?;
    let capability = Capability::read(driver, device)?.number();
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    let units = attribute_of(driver, device, attribute)?;
    Ok(format!("{}, sm_{capability}, {units} multiprocessors", name(driver, device)?))
}
