//! Registry, the daemon's end: the guests of each device, and their holders.
//!
//! *In*: connections, and a policy that grants classes. *Out*: a page for each guest, and a list of
//! guests for metrics. *Invariant*: only a guest and the daemon have the guest's page and write the
//! word that its device waits on; a real-time guest's bit is set there only while its connection
//! and its process live, its own page says that it is busy (or was within 30 ms, while its
//! iterations are measured alone), and it shows that it is at work; a best-effort guest passes in
//! the meantime for the part of the time that the daemon allows, which is zero by default; a
//! best-effort guest that joins during real-time work is held from its first launch; a guest's
//! words in its page affect that guest alone.

mod connection;
mod gates;
mod guests;
mod listener;
mod pass;
mod relay;
mod rt_windows;
mod rules;
mod server;
mod sync;
mod view;

pub use connection::Caller;
pub use gates::Gates;
pub use rules::Rules;
pub use server::{CapsOf, MemoryHandler, MemoryReply, Policy, Registry};
pub use view::{GuestView, History};
