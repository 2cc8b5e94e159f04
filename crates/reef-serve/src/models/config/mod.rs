//! A model's configuration in Triton's form, and the parameters of a load.
//!
//! - **In**: `config.pbtxt`, or the parameters of a load: a configuration as JSON and a model's
//!   files.
//! - **Out**: changes to a [`Description`](crate::models::description::Description); a folder with
//!   the files.
//! - **Invariant**: each key of a configuration is applied, refused, or named as not read; a file's
//!   name leads into the folder of its version, and its bytes are reserved before it is written.

mod fields;
pub(crate) mod load;
pub(crate) mod model_config;
mod sequences;
mod text;
pub(crate) mod upload;
