//! A session: frames in both directions, each handled once, over one connection after another.
//!
//! ```text
//! call, post ──▶ outbox ──▶ writer ──▶ link ──▶ decoder ──▶ inbox ──▶ handler
//!                  │ kept until acknowledged                 │ each number once
//! ```
//!
//! *In*: messages, and links to the peer. *Out*: the peer's messages, in order, to a [`Handler`];
//! replies to the callers that wait for them. *Invariant*: the peer handles each posted message
//! exactly once and in order, or the session ends with an error at both ends.

mod acceptor;
mod client;
mod endpoint;
pub(crate) mod handshake;
mod inbox;
mod migration;
mod outbox;
mod server;
mod vouch;

pub use acceptor::{Acceptor, NO_SESSION, NO_TOKEN, WRONG_TOKEN, redirect, refuse};
pub use client::{Client, ClientOptions};
pub use endpoint::{Endpoint, Handler};
pub use handshake::{Hello, Token};
pub use inbox::Message;
pub use migration::{Adopted, Held};
pub use outbox::{Growth, Traffic};
pub use server::{Authority, Server, ServerOptions};
pub use vouch::vouch;
