//! Client side of the local path.
//!
//! - **In**: the folder of a daemon's sockets, a model's name, and inputs.
//! - **Out**: outputs in the order of the requests, and the timing of each.
//! - **Invariant**: any bytes that the daemon writes are valid as a number, a text or an element of
//!   a tensor; the client keeps its own record of open requests.

pub(crate) mod connection;
pub(crate) mod options;
pub(crate) mod pending;
mod tensor_buffers;
