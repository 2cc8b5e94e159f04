//! A daemon that owns a device and serves real-time and best-effort inference to many processes.
mod budget;
mod catalogue;
mod class;
pub mod config;
mod door;
mod engine;
mod error;
mod job;
mod metrics;
mod model;
mod name;
mod queue;
mod regions;
mod repository;
mod server;
mod stats;
mod tensor;

pub use class::Class;
pub use config::Config;
pub use error::{Error, Result};
pub use name::ModelName;
