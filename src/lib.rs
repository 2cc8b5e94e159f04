//! Microsecond-scale preemption for accelerator kernels, on CUDA, HIP or the CPU.
//!
//! Code is written once, generic over [`Device`], and the device is picked by name at run time:
//!
//! ```
//! struct Describe;
//!
//! impl reef::Visit for Describe {
//!     type Output = String;
//!     fn visit<D: reef::Device>(self, device: D) -> String {
//!         format!("{}: {} units", D::NAME, device.info().units)
//!     }
//! }
//!
//! println!("{}", reef::with_device("cpu:0?units=2", Describe)?);
//! # Ok::<(), reef::Error>(())
//! ```

mod name;

pub use name::DeviceName;
pub use reef_core::*;

#[cfg(feature = "cpu")]
pub use reef_cpu as cpu;

/// Code that runs on whichever device was named; compiled once for each enabled backend.
pub trait Visit {
    /// What it returns.
    type Output;

    /// Runs on `device`.
    fn visit<D: Device>(self, device: D) -> Self::Output;
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
        pub fn with_device<V: Visit>(name: &str, visit: V) -> Result<V::Output> {
            let name = DeviceName::parse(name)?;
            $(
                $(#[$on])*
                if name.backend == <$device as Device>::NAME {
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
}
