//! Who is at the other end.
//!
//! - **In**: what the kernel says of a Unix socket, a client's certificate, a token, or an address.
//! - **Out**: a [`Principal`](principal::Principal), to whom rights are given, and a
//!   [`Peer`](peer::Peer), which is one connection of it.
//! - **Invariant**: nothing that a message says changes who its sender is; files with secrets are
//!   read only if nobody else could read them.

pub(crate) mod auth;
pub(super) mod certificate;
pub(crate) mod client_id;
pub(crate) mod peer;
pub(crate) mod principal;
pub(super) mod secret;
