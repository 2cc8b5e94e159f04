//! Files that a user names: configurations, tokens, models' descriptions, and sockets; and file
//! descriptors that processes send each other.
//!
//! - **In**: a path, or a connected socket.
//! - **Out**: a file's contents, the right to put a socket at a path, or a peer's descriptor.
//! - **Invariant**: reading ends, whatever is at the path: only regular files are read, up to a
//!   bound. Nothing is removed but a socket without a listener. A descriptor that no caller gets is
//!   closed.
//!
//! Crates whose users name files have a `clippy.toml` that refuses other ways to read one.

pub mod descriptors;
mod read;
mod socket;

pub use read::{
    MAX_INPUT_BYTES, MAX_PEM_BYTES, MAX_TEXT_BYTES, MAX_TOKEN_BYTES, own, read, read_to_string,
    regular,
};
pub use socket::{SocketFile, bind, clear};
