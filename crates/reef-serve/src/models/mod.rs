//! Models: the repository, loaded versions, their cost.
//!
//! - **In**: names of models, a folder of files, requests for a loaded version.
//! - **Out**: loaded versions with instances and a queue for each class.
//! - **Invariant**: memory is reserved before it is allocated, and returned when the last instance
//!   of a version is dropped; a version that is being unloaded finishes its requests.

pub(crate) mod budget;
pub(crate) mod config;
pub(crate) mod declaration;
pub(crate) mod description;
pub(crate) mod entries;
pub(crate) mod loaded_model;
mod loading;
mod losses;
pub(crate) mod model_spec;
pub(crate) mod placement;
pub(crate) mod registry;
pub(crate) mod repository;
mod retiring;
pub(crate) mod sequences;
pub(crate) mod shaped;
pub(crate) mod source;
pub(crate) mod state;
mod workers;
