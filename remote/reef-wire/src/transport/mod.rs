//! Ways for bytes to go: TCP, UNIX sockets, TLS, shared memory, and a line that is made slower than
//! it is.
//!
//! *In*: an address. *Out*: a [`Link`], whose two halves are used by two threads. *Invariant*:
//! bytes arrive in order, or the link breaks: then both halves give errors for ever.
//! [`Control::cut`] breaks it from any thread, and [`Control::wake`] ends a [`ReceiveHalf::wait`].

mod address;
mod emulated;
pub(crate) mod link;
mod shared;
mod socket;
mod tls;

pub use address::Address;
pub use emulated::Line;
pub use link::{Control, Link, ReceiveHalf, SendHalf};
pub use tls::{TlsClient, TlsServer};
