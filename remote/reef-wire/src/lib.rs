//! Frames between a program and the machine that has its accelerator.
//!
//! Layers, top to bottom:
//!
//! | module | what it does |
//! |---|---|
//! | `session` | messages in both directions, each handled once, over one connection after another |
//! | `exchange` | the threads of one end: one sends at a time, one reads at a time |
//! | `journal`, `credit` | bytes that are kept until they are acknowledged, and their upper bound |
//! | `bulk`, `cursor`, `id` | long bodies; progress of a lane; names of objects |
//! | `codec`, `frame` | bodies and frames as bytes |
//! | `moved` | the place of a session that is at another server |
//! | `transport` | TCP, UNIX sockets, TLS, an emulated line |
//!
//! *In*: messages that a user of this crate declares with [`messages!`]. *Out*: the same messages
//! at the other end, in order. *Invariant*: a message is handled exactly once, however often the
//! connection is cut, or both ends learn that the session is over. Nothing that a peer sends makes
//! this end panic, or take more memory than [`Limits`] say.
//!
//! Nothing here calls a driver, and there is no asynchronous runtime: a session has a thread that
//! sends, and one that reads. A caller that waits for a reply sends and reads itself.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod bulk;
#[doc(hidden)] // for `messages!`
pub mod codec;
mod credit;
mod cursor;
mod error;
mod exchange;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod id;
mod journal;
mod moved;
mod session;
mod transport;

pub use codec::{Cold, Hot};
pub use credit::Limits;
pub use cursor::Cursor;
pub use error::{Error, Result, printable};
pub use frame::{Decoder, FIRST_OP, Frame, MAX_BODY_LEN};
pub use id::{Id, Mint, Table};
pub use moved::{Key, Moved};
pub use session::{
    Acceptor, Adopted, Authority, Client, ClientOptions, Endpoint, Growth, Handler, Held, Hello,
    Message, NO_SESSION, NO_TOKEN, Server, ServerOptions, Token, Traffic, WRONG_TOKEN, redirect,
    refuse, vouch,
};
pub use transport::{Address, Control, Line, Link, ReceiveHalf, SendHalf, TlsClient, TlsServer};
/// Numbers as they lie in [`Hot`] messages.
pub use zerocopy::little_endian;

/// Returns the bytes of a hot message.
pub fn hot_bytes<T: Hot>(message: &T) -> &[u8] {
    zerocopy::IntoBytes::as_bytes(message)
}
