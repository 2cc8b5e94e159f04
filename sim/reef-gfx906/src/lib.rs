//! A software gfx906 under AMD's own runtime.
//!
//! The library takes the place of `libhsakmt.so.1`, the one part of AMD's stack that talks to the
//! kernel driver. Everything above it is AMD's: argument packing, streams, code objects, error
//! codes. Only tests use this.
//!
//! ```text
//! libamdhip64 → libhsa-runtime64 → thunk ── memory, events
//!                                    └──── device: queues → launches → workgroups on units → isa
//! ```

mod abi;
mod access;
mod clock;
mod control;
mod device;
mod dispatch;
mod events;
pub mod isa;
mod memory;
mod queue;
mod settings;
mod software;
mod thunk;

pub use settings::{Counters, Outcome, Record, Settings};
pub use software::{Software, library};
