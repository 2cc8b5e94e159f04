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
//!
//! [`with_devices`] opens several, and a [`cluster::Cluster`] places clients on them.

mod backends;
pub mod cluster;
mod devices;
mod name;
#[cfg(feature = "perfetto")]
pub mod perfetto;

/// The example in the README is a test.
#[cfg(all(doctest, feature = "cpu", feature = "models"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub use backends::{BACKENDS, Backends, BuiltIn, Visit, Visited, with_device, with_device_of};
pub use devices::{VisitAll, with_devices};
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
