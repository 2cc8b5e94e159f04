//! Files that a user names: configurations, tokens, models' descriptions, and sockets.
//!
//! - **In**: a path.
//! - **Out**: a file's contents, or the right to put a socket at a path.
//! - **Invariant**: reading ends, whatever is at the path: only regular files are read, up to a
//!   bound. Nothing is removed but a socket without a listener.
//!
//! Crates whose users name files have a `clippy.toml` that refuses other ways to read one.

mod read;
mod socket;

pub use read::{
    MAX_INPUT_BYTES, MAX_PEM_BYTES, MAX_TEXT_BYTES, MAX_TOKEN_BYTES, own, read, read_to_string,
    regular,
};
pub use socket::{SocketFile, bind, clear};
