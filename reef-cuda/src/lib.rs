//! The NVIDIA backend, on the driver API alone.
//!
//! The driver library is opened at run time, so this builds and starts on machines without it;
//! opening a device there is an error that says what was tried. Device code ships in packages of
//! its own (`crates/images/`). The common part of all GPU backends is in `reef-gpu`; here is what
//! the driver does for an open device:
//!
//! | file | what it does |
//! |---|---|
//! | `reset.rs` | makes launched kernels void and stops running ones |
//! | `padding.rs` | launches a real-time kernel with best-effort blocks next to it |
//! | `stream.rs`, `order.rs`, `parts.rs` | streams, their priorities, and parts of the multiprocessors |
//! | `memory.rs`, `ipc.rs`, `transfers.rs` | memory of the device, of the host, of other processes and devices |
//! | `module.rs`, `graph.rs`, `code/` | kernels, launches that are taken at once, device code |
//! | `open.rs`, `context.rs`, `facts.rs`, `driver.rs`, `handles.rs` | an open device, what it is, and the driver's functions |
//!
//! ```no_run
//! use reef_core::Device;
//! use reef_cuda::{Cuda, Options, Precision};
//!
//! let device = Cuda::open(0, "precision=fp16")?; // options as text, or as values:
//! let mut options = Options::default();
//! options.precision = Some(Precision::Fp16);
//! let other = Cuda::open_with(1, options)?;
//! println!("{}, {}", device.info().name, other.info().name);
//! # Ok::<(), reef_core::Error>(())
//! ```

mod code;
mod context;
mod driver;
mod facts;
#[cfg(test)]
mod fake;
mod graph;
mod handles;
mod ipc;
mod memory;
mod module;
mod open;
mod order;
mod padding;
mod parts;
mod reset;
mod stream;
mod transfers;

pub use context::Context;
pub use reef_gpu::{Build, Options, Precision, Tuning, observe_tuning};
pub use transfers::{Transfers, ordinal};

use driver::Driver;
use reef_core::Result;

/// An open device.
pub type Cuda = reef_gpu::Gpu<Context>;
/// Memory of the device, or of the host pinned for it.
pub type Buffer = reef_gpu::Buffer<Context>;
/// A kernel ready to launch.
pub type Kernel = reef_gpu::Kernel<Context>;
/// Kernels that a user brings.
pub type Module = reef_gpu::Module<Context>;
/// A hardware queue.
pub type Queue = reef_gpu::Queue<Context>;

/// One line for each device: its name, compute capability and multiprocessors.
///
/// # Errors
///
/// `NotFound` if there is no driver library, saying where it was looked for; an error of the
/// driver.
pub fn devices() -> Result<Vec<String>> {
    let driver = Driver::get()?;
    (0..facts::count(driver)?).map(|ordinal| facts::describe(driver, ordinal)).collect()
}
