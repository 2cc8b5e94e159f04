//! The devices that there are, and their features.

use crate::code::target::Target;
use crate::driver::{BACKEND, Driver, Version};
use reef_core::{Error, Result};
use reef_gpu::TickRate;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Numbers of `hipDeviceAttribute_t`, the same from HIP 5.2 to 7.
pub(crate) mod attribute {
    pub(crate) const MAX_BLOCKS_PER_UNIT: u32 = 25;
    pub(crate) const MAX_THREADS_PER_UNIT: u32 = 57;
    pub(crate) const UNITS: u32 = 63;
    pub(crate) const MAX_REGISTERS_PER_BLOCK: u32 = 71;
    pub(crate) const MAX_REGISTERS_PER_UNIT: u32 = 72;
    pub(crate) const MAX_SHARED_PER_BLOCK: u32 = 74;
    pub(crate) const MAX_SHARED_PER_UNIT: u32 = 10002;
    /// Attribute in kHz. Known from HIP 5.4 on (ROCm/hip issue 3099), and then 0 on some boards.
    pub(crate) const WALL_CLOCK_RATE: u32 = 10017;
}

/// Blocks of several waves that a unit of gfx9 holds: as many as it has barriers.
const BARRIERS_PER_UNIT: u32 = 16;

/// Facts of a device that only this backend needs.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) ordinal: c_int,
    pub(crate) runtime: Version,
    pub(crate) target: Target,
    /// Maximum of bytes of shared memory that one block can have.
    pub(crate) shared_per_block: u32,
    /// Priorities of streams, lowest and highest; smaller numbers go first.
    pub(crate) priorities: (c_int, c_int),
}

impl Device {
    /// Device number `ordinal`, current in this thread from now on.
    pub(crate) fn find(driver: &Driver, ordinal: usize) -> Result<Self> {
        let have = count(driver)?;
        if ordinal >= have {
            return Err(Error::NotFound(format!("no device {BACKEND}:{ordinal} ({have} found)")));
        }
        let ordinal = ordinal as c_int;
        let (mut lowest, mut highest) = (0, 0);
        // SAFETY: the device is there, and the pointers are valid for the call.
        unsafe {
            driver.hipSetDevice(ordinal)?;
            driver.hipDeviceGetStreamPriorityRange(&mut lowest, &mut highest)?;
        }
        Ok(Self {
            ordinal,
            runtime: driver.version()?,
            target: target(driver, ordinal)?,
            shared_per_block: get(driver, ordinal, attribute::MAX_SHARED_PER_BLOCK)?,
            priorities: (lowest, highest),
        })
    }
}

/// Returns the number of devices.
pub(crate) fn count(driver: &Driver) -> Result<usize> {
    let mut count = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.hipGetDeviceCount(&mut count) }?;
    Ok(count as usize)
}

/// Facts for reef-gpu; `graphs`: a trial of them has worked.
pub(crate) fn read(driver: &Driver, device: &Device, graphs: bool) -> Result<reef_gpu::Facts> {
    let get = |attribute| get(driver, device.ordinal, attribute);
    // HIP 5.2 knows neither of the two.
    let blocks = get(attribute::MAX_BLOCKS_PER_UNIT).unwrap_or(BARRIERS_PER_UNIT);
    let registers = get(attribute::MAX_REGISTERS_PER_UNIT);
    let registers = registers.or_else(|_| get(attribute::MAX_REGISTERS_PER_BLOCK))?;
    Ok(reef_gpu::Facts {
        name: name(driver, device.ordinal)?,
        uuid: uuid(driver, device.ordinal),
        memory: memory(driver, device.ordinal),
        units: get(attribute::UNITS)?,
        be_units: get(attribute::UNITS)?,
        padding_per_unit: u32::MAX, // not measured
        blocks_per_unit: blocks,
        threads_per_unit: get(attribute::MAX_THREADS_PER_UNIT)?,
        registers_per_unit: registers,
        shared_per_unit: get(attribute::MAX_SHARED_PER_UNIT)?,
        shared_per_block: device.shared_per_block,
        wave: 64,
        tensor_cores: false,
        // The attribute that should say so reads 0 in HIP 5.2, where both work.
        writes_values: true,
        writes_without_kernels: false,
        waits_values: true,
        // Streams write words by kernels here, which wait for their turn.
        tick_rate: tick_rate(get(attribute::WALL_CLOCK_RATE)),
        graphs,
        starts_early: false,
        parts: false,
        features: features(driver, device, graphs),
    })
}

/// Rates at which AMD's boards count real time: most of gfx9, Vega 10, and those from gfx940 and
/// gfx10 on (`libc/src/time/gpu/time_utils.h` of LLVM).
const TICK_RATES: [u64; 3] = [25_000_000, 27_000_000, 100_000_000];

/// Rate of the clock, from the runtime's answer in kHz, if it gives one.
fn tick_rate(said: Result<u32>) -> TickRate {
    match said {
        Ok(kilohertz) if kilohertz > 0 => TickRate::Known(u64::from(kilohertz) * 1000),
        _ => TickRate::OneOf(&TICK_RATES),
    }
}

/// Features beyond the required ones, for people to read.
fn features(driver: &Driver, device: &Device, graphs: bool) -> Vec<String> {
    let found = [
        (true, "stream memory operations"),
        (graphs, "graphs"),
        (driver.hipExtStreamCreateWithCUMask.is_some(), "CU masks"),
    ];
    let found = found.into_iter().filter(|(there, _)| *there).map(|(_, name)| name.into());
    [device.target.to_string(), format!("HIP {}", device.runtime)]
        .into_iter()
        .chain(found)
        .collect()
}

fn get(driver: &Driver, ordinal: c_int, attribute: c_uint) -> Result<u32> {
    let mut value = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.hipDeviceGetAttribute(&mut value, attribute, ordinal) }?;
    Ok(value as u32)
}

fn name(driver: &Driver, ordinal: c_int) -> Result<String> {
    let mut name: [c_char; 128] = [0; 128];
    // SAFETY: the buffer is as long as we say, and the runtime ends the name with a NUL.
    unsafe {
        driver.hipDeviceGetName(name.as_mut_ptr(), 127, ordinal)?;
        Ok(CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
    }
}

/// Bytes of device memory, if the runtime says so.
fn memory(driver: &Driver, ordinal: c_int) -> Option<u64> {
    let mut bytes = 0;
    // SAFETY: the pointer is valid for the call.
    let said = unsafe { driver.hipDeviceTotalMem(&mut bytes, ordinal) };
    said.ok().and((bytes > 0).then_some(bytes as u64))
}

/// Identifier of the device that is the same in every process, if the runtime tells one.
fn uuid(driver: &Driver, ordinal: c_int) -> Option<[u8; 16]> {
    let mut uuid = [0; 16];
    // SAFETY: the pointer is valid for the call, for 16 bytes.
    unsafe { driver.hipDeviceGetUuid(&mut uuid, ordinal) }.ok().map(|()| uuid)
}

/// Offset of `gcnArchName` in the properties that HIP 6 came with, and in those before, which the
/// plain name fills in all versions. No attribute has it.
const NAME_R0600: usize = 1160;
pub(crate) const NAME_R0000: usize = 396;
/// Room for the properties: 1472 and 792 bytes in the versions that we know.
pub(crate) const PROPERTIES: usize = 8192;
/// Bytes of `gcnArchName`.
const TARGET_NAME: usize = 256;

/// Target that code must be made for.
fn target(driver: &Driver, ordinal: c_int) -> Result<Target> {
    let mut properties = [0u64; PROPERTIES / 8]; // aligned as the structure is
    let to: *mut c_void = properties.as_mut_ptr().cast();
    // SAFETY: the buffer is longer than either structure.
    let at = unsafe {
        if driver.hipGetDevicePropertiesR0600.is_some() {
            driver.hipGetDevicePropertiesR0600(to, ordinal)?;
            NAME_R0600
        } else {
            driver.hipGetDeviceProperties(to, ordinal)?;
            NAME_R0000
        }
    };
    let bytes: Vec<u8> = properties.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = CStr::from_bytes_until_nul(&bytes[at..at + TARGET_NAME]).unwrap_or_default();
    Target::parse(&text.to_string_lossy()).ok_or_else(|| {
        let what = format!("a device whose target is {text:?}, not gfx…");
        Error::Unsupported { backend: BACKEND, what }
    })
}

/// One line about a device, without opening it.
pub(crate) fn describe(driver: &Driver, ordinal: usize) -> Result<String> {
    let device = Device::find(driver, ordinal)?;
    let units = get(driver, device.ordinal, attribute::UNITS)?;
    let name = name(driver, device.ordinal)?;
    Ok(format!("{name}, {}, {units} compute units", device.target.processor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_which_the_runtime_says_nothing_is_measured() {
        assert_eq!(tick_rate(Ok(25_000)), TickRate::Known(25_000_000));
        assert_eq!(tick_rate(Ok(0)), TickRate::OneOf(&TICK_RATES));
        let unknown = Err(Error::invalid("attribute", "is unknown"));
        assert_eq!(tick_rate(unknown), TickRate::OneOf(&TICK_RATES));
    }
}
