//! The daemon's end: who is a guest of which device, and who holds whom.
//!
//! *In*: connections, and a policy that grants classes. *Out*: a page for each guest, and a list of
//! guests for metrics. *Invariant*: a guest's page is known to it and the daemon alone, and nobody
//! but these two writes the word that its device waits on; a real-time guest's bit stands there
//! only while its connection and its process live, its own page says that it is busy, and it shows
//! that it is at work; a best-effort guest that joins while real-time work runs is held from its
//! first launch; what a guest writes into its page is believed of that guest alone.

mod connection;
mod gates;
mod guests;
mod listener;
mod relay;
mod rules;
mod server;
mod view;

pub use connection::Caller;
pub use gates::Gates;
pub use rules::Rules;
pub use server::{Policy, Registry};
pub use view::{GuestView, History};
