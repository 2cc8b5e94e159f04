//! Files that a user names: configurations, tokens, models' descriptions, and sockets; variables
//! that name them; file descriptors that processes send each other, and memory that they map; the
//! stack of a program's main thread.
//!
//! - **In**: a path, a connected socket, or a peer's memory.
//! - **Out**: a file's contents, a new file in the place of an old one, the right to put a socket
//!   at a path, a peer's descriptor, or a mapping.
//! - **Invariant**: reading ends, whatever is at the path: only regular files are read, up to a
//!   bound. A file is replaced as a whole or not at all, and only if it is a regular one of this
//!   user. Nothing is removed but a socket without a listener, and what this crate has begun. A
//!   descriptor that no caller gets is closed. Shared memory is accessed through types of atomics.
//!
//! Crates whose users name files have a `clippy.toml` that refuses other ways to read or write one.

mod create;
pub mod descriptors;
mod environment;
mod mapping;
mod read;
mod replace;
mod socket;
mod stack;

pub use create::Created;
pub use environment::{is_privileged, variable};
pub use mapping::{Mapping, Shared};
pub use read::{
    MAX_INPUT_BYTES, MAX_PEM_BYTES, MAX_TEXT_BYTES, MAX_TOKEN_BYTES, is_taken, own, read,
    read_to_string, regular, token,
};
pub use replace::{NewFile, replaceable, write};
pub use socket::{SocketFile, bind, clear};
pub use stack::on_large_stack;
