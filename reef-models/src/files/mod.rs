//! Networks, tensors and times in files.
//!
//! In: untrusted bytes. Out: a graph, a model, tensors or times that satisfy what those
//! types promise, or an error that names the file, the place in it and the value.
//!
//! Invariant: what is written here is read back as the same.

pub(crate) mod folder;
pub(crate) mod json;
pub(crate) mod kind;
pub(crate) mod model_json;
pub mod npy;
pub(crate) mod op_json;
pub mod param;
pub mod profile;
pub mod safetensors;
pub(crate) mod schedule_json;
pub(crate) mod whole;

pub use kind::unread;
