//! Connections, and who is at the other end.
//!
//! - **In**: connections to Unix sockets and TCP addresses.
//! - **Out**: byte streams with a [`Peer`](identity::peer::Peer) and its
//!   [`Principal`](identity::principal::Principal), after the handshake of TLS where there is one.
//! - **Invariant**: every connection holds a place while it is open, and loses it if it does
//!   nothing with it and others need it; identity comes from the kernel, a certificate or a token,
//!   never from what a message says.

pub(crate) mod access;
pub(crate) mod connection;
pub(crate) mod folder;
pub(crate) mod identity;
pub(crate) mod keep_alive;
pub(crate) mod listener;
pub(crate) mod quota;
pub(crate) mod tls;
