//! NVIDIA's driver and its GPUs.

use super::finding::{Check, Finding};
use crate::commands::exec::library::{DRIVER, DRIVER_VARIABLE, driver};
use anyhow::{Context, Result, bail};
use libloading::Library;
use std::ffi::{CStr, c_char};
use std::fs;
use std::path::{Path, PathBuf};

/// PCI vendor of NVIDIA's devices, and the class that display controllers begin with.
const NVIDIA: &str = "0x10de";
const DISPLAY: &str = "0x03";
/// Bytes for a device's name.
const NAME_BYTES: usize = 256;

/// A driver that has started.
pub(super) struct Driver {
    file: PathBuf,
    version: i32,
    gpus: Vec<String>,
}

/// Result of the search for a driver.
pub(super) enum Found {
    /// It works.
    Driver(Driver),
    /// No library, and no GPU that wants one.
    None,
    /// It is missing or fails although it was named or a GPU is there.
    Fault(String),
}

impl Found {
    /// Looks for the driver and starts it.
    pub(super) fn find() -> Self {
        let is_named = std::env::var_os(DRIVER_VARIABLE).is_some_and(|file| !file.is_empty());
        match driver() {
            Ok(file) => match start(file) {
                Ok(driver) => Self::Driver(driver),
                Err(error) => Self::Fault(format!("{error:#}")),
            },
            Err(why) if is_named || has_pci_gpu() => Self::Fault(why.to_string()),
            Err(_) => Self::None,
        }
    }

    /// There is a driver, working or not.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the functions of which the driver has variants that a library in its place does not
    /// know. Without a working driver there are none.
    ///
    /// # Errors
    ///
    /// The library can't be loaded, or is of an older version.
    pub(super) fn unknown_variants(&self, shim: &Path) -> Result<Vec<String>> {
        type Unknown = unsafe extern "C" fn(i32, *mut c_char, usize) -> usize;
        let Self::Driver(driver) = self else { return Ok(Vec::new()) };
        let shown = shim.display().to_string();
        // SAFETY: nothing runs when this library is loaded.
        let library = unsafe { Library::new(shim) }.with_context(|| shown.clone())?;
        let mut names = [0 as c_char; 4 << 10];
        // SAFETY: the type that the library declares for the function of this name, which writes as
        // many bytes as it is told at most, and ends each name and the list with a zero.
        unsafe {
            let unknown =
                library.get::<Unknown>(b"reef_unknown_variants\0").with_context(|| shown)?;
            unknown(driver.version, names.as_mut_ptr(), names.len());
        }
        std::mem::forget(library); // it opens the driver, which is never unloaded
        let bytes: Vec<u8> = names.iter().map(|&c| c as u8).collect();
        let names = bytes.split(|byte| *byte == 0).take_while(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// Findings of the driver and of its GPUs.
    pub(super) fn findings(&self) -> [Finding; 2] {
        let install = "install NVIDIA's driver, or name its library with REEF_CUDA=FILE";
        match self {
            Self::None => [
                Finding::absent(Check::Driver, format!("no {DRIVER}, and no NVIDIA GPU"), install),
                Finding::absent(
                    Check::Gpu,
                    "none; commands run on the CPU",
                    "`reef exec` needs one; networks run with --device cpu",
                ),
            ],
            Self::Fault(why) => [
                Finding::wrong(Check::Driver, why.as_str(), install),
                Finding::wrong(
                    Check::Gpu,
                    "unknown without a driver",
                    "mend the driver first; `nvidia-smi` must list it",
                ),
            ],
            Self::Driver(driver) => [driver.finding(), driver.gpus()],
        }
    }
}

impl Driver {
    fn finding(&self) -> Finding {
        let (major, minor) = (self.version / 1000, self.version % 1000 / 10);
        Finding::ok(Check::Driver, format!("CUDA {major}.{minor}, {}", self.file.display()))
    }

    fn gpus(&self) -> Finding {
        let all = self.gpus.join(", ");
        if self.gpus.is_empty() {
            let remedy = "unset CUDA_VISIBLE_DEVICES, or give the container a GPU";
            return Finding::wrong(Check::Gpu, "the driver sees none", remedy);
        }
        if reef::BACKENDS.contains(&"cuda") {
            return Finding::ok(Check::Gpu, format!("{}: {all}", self.gpus.len()));
        }
        // `reef exec` needs no backend; networks on the GPU do.
        let remedy = "for networks on it: cargo build --release -p reef-cli --features cuda";
        let found = format!("{}: {all}; this build has no CUDA backend", self.gpus.len());
        Finding { remedy: Some(remedy.into()), ..Finding::ok(Check::Gpu, found) }
    }
}

/// Loads a driver and asks it for its devices.
fn start(file: PathBuf) -> Result<Driver> {
    type One = unsafe extern "C" fn(u32) -> i32;
    type Number = unsafe extern "C" fn(*mut i32) -> i32;
    type Name = unsafe extern "C" fn(*mut c_char, i32, i32) -> i32;
    let shown = file.display().to_string();
    // SAFETY: it is the library that CUDA programs load, or the one that the user names in its
    // place; they run its initialisers as well.
    let library = unsafe { Library::new(&file) }.with_context(|| shown.clone())?;
    // SAFETY: each has the type that `cuda.h` declares for the function of this name.
    let (init, version, count, name) = unsafe {
        (
            library.get::<One>(b"cuInit\0")?,
            library.get::<Number>(b"cuDriverGetVersion\0")?,
            library.get::<Number>(b"cuDeviceGetCount\0")?,
            library.get::<Name>(b"cuDeviceGetName\0")?,
        )
    };
    let check = |function: &str, code: i32| match code {
        0 => Ok(()),
        code => bail!("{shown}: {function}: {} (code {code})", meaning(code)),
    };
    // SAFETY: `cuInit` takes flags, which must be 0.
    check("cuInit", unsafe { init(0) })?;
    let (mut number, mut gpus) = (0, Vec::new());
    // SAFETY: the function writes one number, and `number` outlives the call.
    check("cuDriverGetVersion", unsafe { version(&raw mut number) })?;
    let mut devices = 0;
    // SAFETY: the function writes one number, and `devices` outlives the call.
    check("cuDeviceGetCount", unsafe { count(&raw mut devices) })?;
    for device in 0..devices {
        let mut text = [0 as c_char; NAME_BYTES];
        // SAFETY: the function writes at most `NAME_BYTES` bytes, and ends them with a zero.
        check("cuDeviceGetName", unsafe { name(text.as_mut_ptr(), NAME_BYTES as i32, device) })?;
        let text: Vec<u8> = text.iter().map(|&c| c as u8).collect();
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        gpus.push(text.to_string_lossy().into_owned());
    }
    std::mem::forget(library); // a driver that has started is never unloaded
    Ok(Driver { file, version: number, gpus })
}

/// A usual reason for a code of `cuInit`.
fn meaning(code: i32) -> &'static str {
    match code {
        100 => "no device is visible",
        101 => "no such device",
        802 => "the system isn't ready (fabric manager?)",
        803 => "the library is of another version than the kernel's driver",
        804 => "compatibility mode isn't supported on this device",
        999 => "unknown error; permissions of /dev/nvidia*?",
        _ => "refused",
    }
}

/// A GPU of NVIDIA's is plugged in, with a driver or not.
#[expect(clippy::disallowed_methods, reason = "of /sys")]
fn has_pci_gpu() -> bool {
    let devices = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    devices.map(|device| device.path()).any(|device| {
        let starts = |file: &str, with: &str| {
            fs::read_to_string(device.join(file)).is_ok_and(|text| text.starts_with(with))
        };
        starts("vendor", NVIDIA) && starts("class", DISPLAY)
    })
}
