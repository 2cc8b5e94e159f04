//! Schedule graphs of neural networks.

mod densenet;
mod error;
mod fold;
mod hazard;
mod inception;
mod layers;
mod model;
pub mod param;
pub mod profile;
pub mod reference;
mod resnet;
mod schedule;
mod schedule_json;
mod tensor;
mod validate;
mod weights;

pub use error::{Error, Result};
pub use fold::Folded;
pub use hazard::hazards;
pub use model::{Layer, Model, NAMES, build};
pub use schedule::{ElementType, KernelCall, ScheduleGraph, Step, Storage, Work};
pub use tensor::{Constants, Kind, Norm, Source, TensorSpec};
pub use validate::Problem;
pub use weights::Seeded;
