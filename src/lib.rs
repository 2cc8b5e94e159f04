//! Microsecond-scale preemption for accelerator kernels, on CUDA, HIP or the CPU.
//!
//! Code is written once, generic over [`Device`], and the device is picked by name at run time:
//!
//! ```
//! struct Describe;
//!
//! impl reef::Visit for Describe {
//!     type Output = String;
//!     fn visit<D: reef::op::Operators>(self, device: D) -> String {
//!         format!("{}: {} units", D::NAME, device.info().units)
//!     }
//! }
//!
//! println!("{}", reef::with_device("cpu:0?units=2", Describe)?);
//! # Ok::<(), reef::Error>(())
//! ```

mod cells;
mod name;

/// The example in the README is a test.
#[cfg(all(doctest, feature = "cpu", feature = "models"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub use cells::{Cells, appended};
pub use name::DeviceName;
pub use reef_core::*;

#[cfg(feature = "cpu")]
pub use reef_cpu as cpu;
#[cfg(feature = "cuda")]
pub use reef_cuda as cuda;
#[cfg(feature = "models")]
pub use reef_models as models;

/// Code that runs on whichever device was named; compiled once for each enabled backend.
pub trait Visit {
    /// What it returns.
    type Output;

    /// Runs on `device`.
    fn visit<D: op::Operators>(self, device: D) -> Self::Output;
}

macro_rules! backends {
    ($($(#[$on:meta])* $device:ty),+ $(,)?) => {
        /// Names of the backends compiled in.
        pub const BACKENDS: &[&str] = &[$($(#[$on])* <$device as Device>::NAME),+];

        /// Opens a device by its name, such as `cpu`, `cuda:1` or `cpu:0?units=4`, and hands it to
        /// `visit`.
        ///
        /// # Errors
        ///
        /// `Invalid` if the name or an option is malformed; `NotFound` if no such backend is
        /// compiled in, its library is not installed, or it has no such device.
        #[allow(unused_variables)] // `visit`, with no backend that runs work
        pub fn with_device<V: Visit>(name: &str, visit: V) -> Result<V::Output> {
            let name = DeviceName::parse(name)?;
            $(
                $(#[$on])*
                if name.backend == <$device as Device>::NAME {
                    return Ok(visit.visit(<$device as Device>::open(name.ordinal, name.options)?));
                }
            )+
            found_only(&name)?;
            Err(name.unknown(BACKENDS))
        }
    };
}

backends! {
    #[cfg(feature = "cpu")]
    reef_cpu::Cpu,
    #[cfg(feature = "cuda")]
    reef_cuda::Cuda,
}

/// The error for a backend that can find devices but not run work on them yet.
fn found_only(name: &DeviceName<'_>) -> Result<()> {
    let Some(devices) = finders().into_iter().find(|(backend, _)| *backend == name.backend) else {
        return Ok(());
    };
    let found = devices.1()?.len();
    let text = format!("no device {}:{} ({found} found)", name.backend, name.ordinal);
    if name.ordinal >= found {
        return Err(Error::NotFound(text));
    }
    let backend = devices.0;
    Err(Error::Unsupported {
        backend,
        what: "running work; this version only finds devices".into(),
    })
}

/// Finds devices: one line of description for each.
type Finder = fn() -> Result<Vec<String>>;

/// Backends that are compiled in and can't run work yet, with what finds their devices.
fn finders() -> Vec<(&'static str, Finder)> {
    vec![
        #[cfg(feature = "hip")]
        (reef_hip::NAME, reef_hip::devices as Finder),
    ]
}

/// Every device of every backend that is compiled in, or why a backend has none.
pub fn devices() -> Vec<(&'static str, Result<Vec<String>>)> {
    let mut all: Vec<(&'static str, Result<Vec<String>>)> = vec![
        #[cfg(feature = "cpu")]
        (cpu::Cpu::NAME, cpu::Cpu::open(0, "").map(|device| vec![device.info().name])),
        #[cfg(feature = "cuda")]
        (cuda::Cuda::NAME, cuda::devices()),
    ];
    all.extend(finders().into_iter().map(|(name, find)| (name, find())));
    all
}

/// Compilers of device code that were there when this was built.
pub fn kernel_compilers() -> Vec<(&'static str, &'static str)> {
    [("cuda", env!("REEF_CUDA_COMPILER")), ("hip", env!("REEF_HIP_COMPILER"))]
        .into_iter()
        .filter(|(_, path)| !path.is_empty())
        .collect()
}
