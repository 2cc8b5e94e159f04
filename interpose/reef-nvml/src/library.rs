//! The library, as far as it is used.

use crate::error::Error;
use crate::monitor::{Busy, Figures, Memory, Monitor, Process, Uuid};
use libloading::Library;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::fmt;

/// The library's name.
pub const LIBRARY: &str = "libnvidia-ml.so.1";
/// The variable that names another file in its place.
pub const VARIABLE: &str = "REEF_NVML_LIBRARY";

/// `NVML_ERROR_NOT_SUPPORTED`; `NVML_ERROR_NOT_FOUND`, also of no samples;
/// `NVML_ERROR_INSUFFICIENT_SIZE`.
const NOT_SUPPORTED: u32 = 3;
const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
/// `NVML_VALUE_NOT_AVAILABLE`.
const NOT_AVAILABLE: u64 = u64::MAX;
/// A list grows between two calls by no more than this, or the third call gets it.
const SPARE: u32 = 16;
const TRIES: usize = 3;

/// `nvmlDevice_t`.
type Device = *mut std::ffi::c_void;
type List<T> = unsafe extern "C" fn(Device, *mut u32, *mut T) -> u32;
type Text = unsafe extern "C" fn(u32) -> *const c_char;
/// Total, free and used bytes (`nvmlMemory_t`).
type MemoryInfo = unsafe extern "C" fn(Device, *mut [u64; 3]) -> u32;
type Samples = unsafe extern "C" fn(Device, *mut Sample, *mut u32, u64) -> u32;

/// Getter of one value of a device.
type Get<T> = unsafe extern "C" fn(Device, *mut T) -> u32;

/// `NVML_DEVICE_UUID_V2_BUFFER_SIZE`.
const UUID_BYTES: usize = 96;

/// Functions for all devices, and for the state of each.
#[derive(Clone, Copy)]
struct Gauges {
    count: Option<unsafe extern "C" fn(*mut u32) -> u32>,
    by_index: Option<unsafe extern "C" fn(u32, *mut Device) -> u32>,
    uuid: Option<unsafe extern "C" fn(Device, *mut c_char, u32) -> u32>,
    /// Of kernels and of memory (`nvmlUtilization_t`).
    utilization: Option<Get<[u32; 2]>>,
    power: Option<Get<u32>>,
    power_limit: Option<Get<u32>>,
    energy: Option<Get<u64>>,
}

impl Gauges {
    fn of(library: &Library) -> Self {
        // SAFETY: each is of the type that `nvml.h` declares it with.
        unsafe {
            Self {
                count: function(library, "nvmlDeviceGetCount_v2").ok(),
                by_index: function(library, "nvmlDeviceGetHandleByIndex_v2").ok(),
                uuid: function(library, "nvmlDeviceGetUUID").ok(),
                utilization: function(library, "nvmlDeviceGetUtilizationRates").ok(),
                power: function(library, "nvmlDeviceGetPowerUsage").ok(),
                power_limit: function(library, "nvmlDeviceGetPowerManagementLimit").ok(),
                energy: function(library, "nvmlDeviceGetTotalEnergyConsumption").ok(),
            }
        }
    }
}

/// A value of a device, if the driver has it.
///
/// # Safety
///
/// `device` is a handle of the library, and `get` a function of it.
unsafe fn value<T: Default>(device: Device, get: Option<Get<T>>) -> Option<T> {
    let (get, mut value) = (get?, T::default());
    // SAFETY: `# Safety` demands a handle of the library and a function of it; `value` is a local
    // that the function may write.
    (unsafe { get(device, &raw mut value) } == 0).then_some(value)
}

/// `nvmlProcessInfo_v2_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    pid: u32,
    memory: u64,
    instances: [u32; 2],
}

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    pid: u32,
    at: u64,
    /// Multiprocessors, memory, encoder, decoder; per cent.
    percent: [u32; 4],
}

const _: () = assert!(size_of::<Info>() == 24 && size_of::<Sample>() == 32);

/// The open library.
pub struct Nvml {
    shutdown: unsafe extern "C" fn() -> u32,
    text: Option<Text>,
    by_uuid: unsafe extern "C" fn(*const c_char, *mut Device) -> u32,
    /// Functions that list programs, and programs under MPS.
    lists: Vec<(&'static str, List<Info>)>,
    samples: Option<Samples>,
    memory: Option<MemoryInfo>,
    gauges: Gauges,
    // Last: the functions are in it.
    _library: Library,
}

impl fmt::Debug for Nvml {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Nvml").finish_non_exhaustive()
    }
}

/// A function of the library.
///
/// # Safety
///
/// `F` is the type of the function of this name.
unsafe fn function<F: Copy>(library: &Library, name: &'static str) -> Result<F, Error> {
    // SAFETY: `# Safety` demands that `F` is the type of the function of this name in nvml.h.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|found| *found).map_err(|_| Error::Function(name))
}

impl Nvml {
    /// Opens the library that [`VARIABLE`] names, or the driver's own, and starts it.
    ///
    /// # Errors
    ///
    /// Errors of [`open`](Self::open).
    pub fn from_environment() -> Result<Self, Error> {
        let named = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
        Self::open(named.as_deref())
    }

    /// Opens the library of this file, or the driver's own, and starts it.
    ///
    /// # Errors
    ///
    /// There is none, it lacks a function, or it finds no driver.
    pub fn open(file: Option<&OsStr>) -> Result<Self, Error> {
        let file = file.unwrap_or_else(|| OsStr::new(LIBRARY));
        // SAFETY: the driver's library, or what the operator names: its initialisers are what every
        // tool runs.
        let library = unsafe { Library::new(file) };
        let library = library.map_err(|error| absent(file, &error))?;
        Self::of(library)
    }

    fn of(library: Library) -> Result<Self, Error> {
        let names = [
            ["nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"],
            [
                "nvmlDeviceGetMPSComputeRunningProcesses_v3",
                "nvmlDeviceGetMPSComputeRunningProcesses_v2",
            ],
        ];
        // SAFETY: each is of the type that `nvml.h` declares it with, in both of its versions.
        unsafe {
            let list = |names: [&'static str; 2]| {
                names.into_iter().find_map(|name| Some((name, function(&library, name).ok()?)))
            };
            let lists: Vec<_> = names.into_iter().filter_map(list).collect();
            let (shutdown, by_uuid) = (
                function(&library, "nvmlShutdown")?,
                function(&library, "nvmlDeviceGetHandleByUUID")?,
            );
            let text = function(&library, "nvmlErrorString").ok();
            let samples = function(&library, "nvmlDeviceGetProcessUtilization").ok();
            let memory = function(&library, "nvmlDeviceGetMemoryInfo").ok();
            let gauges = Gauges::of(&library);
            let init: unsafe extern "C" fn() -> u32 = function(&library, "nvmlInit_v2")?;
            match init() {
                0 => Ok(Self {
                    shutdown,
                    text,
                    by_uuid,
                    lists,
                    samples,
                    memory,
                    gauges,
                    _library: library,
                }),
                code => Err(refused(text, "nvmlInit_v2", code)),
            }
        }
    }

    /// Returns the state of all devices, with their UUIDs as tools write them. Those that are lost
    /// are left out.
    ///
    /// # Errors
    ///
    /// The number of devices isn't known.
    pub fn figures(&self) -> Result<Vec<(String, Figures)>, Error> {
        const NAME: &str = "nvmlDeviceGetCount_v2";
        let (call, mut count) = (self.gauges.count.ok_or(Error::Function(NAME))?, 0);
        // SAFETY: where the number goes.
        match unsafe { call(&raw mut count) } {
            0 => Ok((0..count).filter_map(|index| self.figures_of(index)).collect()),
            code => Err(self.refused(NAME, code)),
        }
    }

    fn figures_of(&self, index: u32) -> Option<(String, Figures)> {
        let Gauges { by_index, uuid, utilization, power, power_limit, energy, .. } = self.gauges;
        let (mut device, mut name) = (std::ptr::null_mut(), [0; UUID_BYTES]);
        // SAFETY: where the handle goes, and a buffer with its length, which a zero ends.
        let name = unsafe {
            if by_index?(index, &raw mut device) != 0
                || uuid?(device, name.as_mut_ptr(), UUID_BYTES as u32) != 0
            {
                return None;
            }
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        // SAFETY: the library gave the handle, and has the functions.
        let figures = unsafe {
            Figures {
                utilization: value(device, utilization).map(|[kernels, _]| kernels),
                memory: value(device, self.memory).map(|[total, _, used]| [total, used]),
                power: value(device, power),
                power_limit: value(device, power_limit),
                energy: value(device, energy),
            }
        };
        Some((name, figures))
    }

    fn refused(&self, function: &'static str, code: u32) -> Error {
        refused(self.text, function, code)
    }

    fn device(&self, uuid: &Uuid) -> Result<Device, Error> {
        let mut code = NOT_FOUND;
        for kind in ["GPU", "MIG"] {
            let mut device = std::ptr::null_mut();
            let name = named(kind, uuid);
            // SAFETY: a string, and where the handle goes.
            code = unsafe { (self.by_uuid)(name.as_ptr(), &raw mut device) };
            if code == 0 {
                return Ok(device);
            }
        }
        Err(self.refused("nvmlDeviceGetHandleByUUID", code))
    }

    /// All of a list, whose length the library says first.
    fn list<T: Copy + Default>(
        &self,
        name: &'static str,
        call: impl Fn(*mut u32, *mut T) -> u32,
    ) -> Result<Vec<T>, Error> {
        let mut room = SPARE;
        for _ in 0..TRIES {
            let (mut count, mut list) = (room, vec![T::default(); room as usize]);
            match call(&raw mut count, list.as_mut_ptr()) {
                0 => {
                    list.truncate(count as usize);
                    return Ok(list);
                }
                NOT_FOUND => return Ok(Vec::new()),
                INSUFFICIENT_SIZE => room = count.min(1 << 16).saturating_add(SPARE),
                code => return Err(self.refused(name, code)),
            }
        }
        Err(self.refused(name, INSUFFICIENT_SIZE))
    }
}

/// Returns the loader's reason, with the file's name if it lacks it.
fn absent(file: &OsStr, error: &libloading::Error) -> Error {
    let why = std::error::Error::source(error).map_or(error.to_string(), ToString::to_string);
    let file = file.to_string_lossy();
    let why = if why.contains(&*file) { why } else { format!("{file}: {why}") };
    Error::Absent(why)
}

fn refused(text: Option<Text>, function: &'static str, code: u32) -> Error {
    let text = text.map(|text| {
        // SAFETY: answers any number with a string of its own.
        unsafe { CStr::from_ptr(text(code)) }.to_string_lossy().into_owned()
    });
    Error::Call { function, code, text: text.unwrap_or_else(|| "refused".into()) }
}

/// A UUID as the library writes it.
fn named(kind: &str, uuid: &Uuid) -> CString {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let [a, b, c, d, e] =
        [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| &hex[from..to]);
    CString::new(format!("{kind}-{a}-{b}-{c}-{d}-{e}")).unwrap_or_default() // no zero is in it
}

impl Monitor for Nvml {
    fn processes(&self, device: &Uuid) -> Result<Vec<Process>, Error> {
        let device = self.device(device)?;
        let mut all: Vec<Process> = Vec::new();
        if self.lists.is_empty() {
            return Err(Error::Function("nvmlDeviceGetComputeRunningProcesses_v2"));
        }
        for (name, list) in &self.lists {
            // SAFETY: a device, a length, and a buffer of that length.
            let infos = self.list(name, |count, to: *mut Info| unsafe { list(device, count, to) });
            let memory = |of: u64| (of != NOT_AVAILABLE).then_some(of);
            let process = |info: Info| Process { pid: info.pid, memory: memory(info.memory) };
            let infos = match infos {
                // A device or a driver without MPS has no programs under it.
                Err(Error::Call { code: NOT_SUPPORTED, .. }) if name.contains("MPS") => continue,
                infos => infos?,
            };
            for process in infos.into_iter().map(process) {
                if all.iter().all(|known| known.pid != process.pid) {
                    all.push(process);
                }
            }
        }
        Ok(all)
    }

    fn busy(&self, device: &Uuid, since: u64) -> Result<Vec<Busy>, Error> {
        const NAME: &str = "nvmlDeviceGetProcessUtilization";
        let (device, samples) = (self.device(device)?, self.samples.ok_or(Error::Function(NAME))?);
        // SAFETY: a device, a buffer, and its length.
        let call = |count, to: *mut Sample| unsafe { samples(device, to, count, since) };
        let mut last: Vec<Busy> = Vec::new();
        for Sample { pid, at, percent } in self.list(NAME, call)? {
            let busy = Busy { pid, percent: percent[0], at };
            match last.iter_mut().find(|known| known.pid == pid) {
                Some(known) if known.at < at => *known = busy,
                Some(_) => {}
                None => last.push(busy),
            }
        }
        Ok(last)
    }
}

impl Memory for Nvml {
    fn free(&self, device: &Uuid) -> Result<u64, Error> {
        const NAME: &str = "nvmlDeviceGetMemoryInfo";
        let (device, call) = (self.device(device)?, self.memory.ok_or(Error::Function(NAME))?);
        let mut bytes = [0; 3];
        // SAFETY: a device, and room for three numbers.
        match unsafe { call(device, &raw mut bytes) } {
            0 => Ok(bytes[1]),
            code => Err(self.refused(NAME, code)),
        }
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: started in `of`; the library counts starts and ends.
        let _ = unsafe { (self.shutdown)() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_written_as_tools_write_them() {
        let name = named("GPU", b"\x01\x23\x45\x67\x89\xab\xcd\xef0123456\xff");
        assert_eq!(name.to_str(), Ok("GPU-01234567-89ab-cdef-3031-3233343536ff"));
    }
}
