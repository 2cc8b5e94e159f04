//! The client's side.
//!
//! - **In**: the folder of a daemon's sockets, a model's name, and inputs.
//! - **Out**: outputs in the order of the requests, and what each of them took.
//! - **Invariant**: nothing that the daemon writes is more than a number, a text or an element of a
//!   tensor; of what is open the client keeps its own notes.

pub(crate) mod connection;
pub(crate) mod options;
mod tensor_buffers;
