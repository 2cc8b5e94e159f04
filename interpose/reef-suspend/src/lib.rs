//! Suspension of whole CUDA processes: out of the GPU's memory, and back.
//!
//! A process that knows nothing of it leaves the GPU with all that it has there (contexts, memory,
//! streams, graphs), stays as a process of the host, and comes back at the same addresses. Its
//! calls of the driver wait meanwhile. The driver does the work (`cuCheckpointProcess*`, CUDA 12.8,
//! driver 570); this crate orders the steps, bounds them, and undoes them if one fails.
//!
//! *In*: process numbers. *Out*: a [`Suspended`] record for each, and the time of each step.
//! *Invariant*: a call returns with every process of the group either suspended or running. A
//! process that can't be suspended is unlocked and goes on. A restore is not begun unless the
//! memory is there, because a process whose restore fails is lost.
//!
//! A program that was started as swappable moves its own memory first, by several threads, and the
//! driver what is left: contexts, and small allocations.
//!
//! The caller must not die in the middle of a step: the driver then holds the process locked.
//! `reef` makes these calls from a process of their own that ignores signals.

mod api;
mod driver;
mod error;
mod group;
pub mod helper;
mod memory;
mod record;
mod refusal;
pub mod store;
mod swaps;
mod written;

pub use api::{Api, Pair, State, Uuid};
pub use driver::Driver;
pub use error::Error;
pub use group::{Group, MARGIN};
pub use memory::{Devices, Free};
pub use record::{Held, Process, Records, Steps, Suspended};
pub use refusal::Refusal;
pub use written::adopted::{ProcessFolder, Reserved};
pub use written::criu::{Criu, Streams, VARIABLE as CRIU_VARIABLE};
pub use written::files::Adoption;
