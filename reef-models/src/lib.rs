//! Schedule graphs of neural networks.

mod error;
mod hazard;
pub mod param;
pub mod profile;
mod schedule;
mod schedule_json;
mod validate;

pub use error::{Error, Result};
pub use hazard::hazards;
pub use schedule::{ElementType, KernelCall, ScheduleGraph, Step, Storage, Work};
pub use validate::Problem;
