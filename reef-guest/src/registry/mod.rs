//! The daemon's end: who is a guest of which device, and what becomes of holders that die.
//!
//! *In*: connections, and a policy that grants classes. *Out*: pages, peers' pages for real-time guests, and a list
//! of guests for metrics. *Invariant*: a holder's bit stands in pages only while its connection lives; a best-effort
//! guest that joins while real-time work runs is held from its first launch; what a guest writes into its page is
//! believed of that guest alone.

mod connection;
mod gates;
mod guests;
mod server;
mod view;

pub use connection::Caller;
pub use gates::Gates;
pub use server::{Policy, Registry};
pub use view::{GuestView, History};
