//! A device of another machine.
//!
//! [`Remote`] implements [`Device`](reef_core::Device) and [`Operators`](reef_op::Operators)
//! over a session of `reef-wire`. A [`server`] has the real device.
//! There are two sorts of sessions:
//!
//! | | the server has | preemption |
//! |---|---|---|
//! | shared | a dispatcher, whose clients are the queues of all sessions | by that dispatcher: real-time work of one session preempts best-effort work of the others, at the depth that the real device has |
//! | own | a device for each session, whose hardware queues are the client's | by the client's dispatcher, at each level that the device has |
//!
//! *In*: a device string `remote:ADDRESS/DEVICE`, and commands. *Out*: messages of
//! [`messages`](mod@messages), and positions that the server pushes. *Invariant*: commands of a
//! queue run in order and once, as on the device itself, or the queue ends with an error. A client
//! names what it makes. The server checks each name, range and operation before the device sees it.

mod client;
mod conversions;
mod error;
pub mod messages;
pub mod migration;
pub mod observe;
mod schema;
pub mod server;

pub use client::event::Event;
pub use client::graph::Graph;
pub use client::objects::{Buffer, Kernel};
pub use client::options::{Options, spin};
pub use client::preemptor::{Checkpoint, Preemptor};
pub use client::queue::Queue;
pub use client::remote::Remote;
pub use schema::schema;
