//! Identity of peers.
//!
//! - **In**: the kernel's statement about a Unix socket, or a loopback client, a certificate, a
//!   token, or an address.
//! - **Out**: a [`Principal`](principal::Principal), to which rights are given, and a
//!   [`Peer`](peer::Peer), which is one connection of it.
//! - **Invariant**: a message cannot change the identity of its sender; files with secrets are read
//!   only if no other user could read them.

pub(crate) mod auth;
pub(super) mod certificate;
pub(crate) mod client_id;
pub(super) mod loopback;
pub(crate) mod peer;
pub(crate) mod principal;
pub(super) mod secret;
