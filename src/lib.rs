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

mod name;
#[cfg(feature = "perfetto")]
pub mod perfetto;

/// The example in the README is a test.
#[cfg(all(doctest, feature = "cpu", feature = "models"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub use name::DeviceName;
pub use reef_core::*;

#[cfg(feature = "cpu")]
pub use reef_cpu as cpu;
#[cfg(feature = "cuda")]
pub use reef_cuda as cuda;
#[cfg(feature = "hip")]
pub use reef_hip as hip;
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
        pub const BACKENDS: &[&str] = &[$($(#[$on])* <$device as Backend>::NAME),+];

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
                if name.backend == <$device as Backend>::NAME {
                    return Ok(visit.visit(<$device as Device>::open(name.ordinal, name.options)?));
                }
            )+
            Err(name.unknown(BACKENDS))
        }
    };
}

backends! {
    #[cfg(feature = "cpu")]
    reef_cpu::Cpu,
    #[cfg(feature = "cuda")]
    reef_cuda::Cuda,
    #[cfg(feature = "hip")]
    reef_hip::Hip,
}

/// Every device of every backend that is compiled in, or why a backend has none.
pub fn devices() -> Vec<(&'static str, Result<Vec<String>>)> {
    vec![
        #[cfg(feature = "cpu")]
        (cpu::Cpu::NAME, cpu::Cpu::open(0, "").map(|device| vec![device.info().name])),
        #[cfg(feature = "cuda")]
        (cuda::Cuda::NAME, cuda::devices()),
        #[cfg(feature = "hip")]
        (hip::Hip::NAME, hip::devices()),
    ]
}

/// Compilers of device code that were there when this was built.
pub fn kernel_compilers() -> Vec<(&'static str, &'static str)> {
    [("cuda", env!("REEF_CUDA_COMPILER")), ("hip", env!("REEF_HIP_COMPILER"))]
        .into_iter()
        .filter(|(_, path)| !path.is_empty())
        .collect()
}
