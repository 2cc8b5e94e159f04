//! The AMD backend, on the HIP runtime API.
//!
//! The runtime library is opened at run time, so this builds and starts on machines without it;
//! opening a device there is an error that says what was tried. Device code ships with the crate.
//! It runs with HIP 5.2 to 7. The common part of all GPU backends is in `reef-gpu`; here is what
//! AMD's runtime does for an open device, and what it doesn't:
//!
//! | file | what it does |
//! |---|---|
//! | `reset.rs` | makes launched kernels void and stops running ones |
//! | `padding.rs` | launches a real-time kernel with best-effort blocks next to it |
//! | `stream.rs`, `order.rs`, `masks.rs` | streams, their priorities, and the compute units that they run on |
//! | `memory.rs`, `pools.rs` | memory of the device and of the host, and what is kept of it |
//! | `module.rs`, `graph.rs`, `code/` | kernels, launches that are taken at once, device code |
//! | `open.rs`, `context.rs`, `facts.rs`, `driver.rs`, `handles.rs` | an open device, what it is, and the runtime's functions |
//!
//! ```no_run
//! use reef_core::Device;
//! use reef_hip::{Hip, Options, Precision};
//!
//! let device = Hip::open(0, "precision=fp16")?; // options as text, or as values:
//! let mut options = Options::default();
//! options.precision = Some(Precision::Fp16);
//! let other = Hip::open_with(1, options)?;
//! println!("{}, {}", device.info().name, other.info().name);
//! # Ok::<(), reef_core::Error>(())
//! ```

#[cfg(test)]
mod abi_tests;
mod code;
mod context;
mod driver;
mod facts;
#[cfg(test)]
mod fake;
mod graph;
mod handles;
mod masks;
mod memory;
mod module;
mod open;
mod order;
mod padding;
mod pools;
mod reset;
mod stream;

pub use context::Context;
pub use handles::{Code, Exec, Function, Stream};
pub use reef_gpu::{Build, Options, Precision, Tuning, observe_tuning};

use driver::Driver;
use reef_core::Result;

/// An open device.
pub type Hip = reef_gpu::Gpu<Context>;
/// Memory of the device, or of the host pinned for it.
pub type Buffer = reef_gpu::Buffer<Context>;
/// A kernel ready to launch.
pub type Kernel = reef_gpu::Kernel<Context>;
/// Kernels that a user brings.
pub type Module = reef_gpu::Module<Context>;
/// A hardware queue.
pub type Queue = reef_gpu::Queue<Context>;

/// One line for each device: its name, target and compute units.
///
/// # Errors
///
/// `NotFound` if there is no runtime library, saying where it was looked for, or no device; the
/// runtime's.
pub fn devices() -> Result<Vec<String>> {
    let driver = Driver::get()?;
    (0..facts::count(driver)?).map(|ordinal| facts::describe(driver, ordinal)).collect()
}

#[cfg(test)]
mod tests {
    use reef_core::Error;

    #[test]
    fn a_machine_without_a_runtime_or_a_device_says_so() {
        match super::devices() {
            Ok(_) => reef_conformance::skip("this machine has a device"),
            Err(Error::NotFound(text)) => {
                let tried = text.contains("libamdhip64.so.7") || text.contains("$REEF_HIP");
                assert!(tried || text.contains("no device: hipInit"), "{text}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}
