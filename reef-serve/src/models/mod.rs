//! Which models there are, which of them are loaded, and what they cost.
//!
//! - **In**: names of models, a folder of files, requests for a loaded version.
//! - **Out**: loaded versions with instances and a queue for each class.
//! - **Invariant**: memory is reserved before it is allocated, and given back when the last
//!   instance of a version is gone; a version that is unloaded finishes the requests that it has.

pub(crate) mod budget;
pub(crate) mod config;
pub(crate) mod declaration;
pub(crate) mod description;
pub(crate) mod loaded_model;
mod loading;
mod losses;
pub(crate) mod model_spec;
pub(crate) mod placement;
pub(crate) mod registry;
pub(crate) mod repository;
mod retiring;
pub(crate) mod shaped;
pub(crate) mod source;
mod workers;
