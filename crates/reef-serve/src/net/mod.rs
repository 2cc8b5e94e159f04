//! Connections, and the identity of their peers.
//!
//! - **In**: connections to Unix sockets and TCP addresses.
//! - **Out**: byte streams with a [`Peer`](identity::peer::Peer) and its
//!   [`Principal`](identity::principal::Principal), after the handshake of TLS where there is one.
//! - **Invariant**: every open connection holds a slot. It loses the slot if it does nothing with
//!   it and another needs it. Identity comes from the kernel, a certificate or a token, never from
//!   a message.

pub(crate) mod access;
pub(crate) mod connection;
pub(crate) mod folder;
pub(crate) mod identity;
pub(crate) mod keep_alive;
pub(crate) mod listener;
pub(crate) mod quota;
pub(crate) mod tls;
