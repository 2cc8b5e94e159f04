//! Holders of best-effort guests, and the time for which a real-time guest is one.
//!
//! *In*: launches of a real-time guest, and polls of whether they have ended. *Out*: the holders
//! word of each best-effort guest, which its device waits on. *Invariant*: between a launch's start
//! and the first release that knows of its end, the real-time guest's own word says that it is
//! busy, and a relay of the daemon keeps its bit in every peer's word. A real-time guest writes to
//! its own word alone.

pub(crate) mod activity;
mod atomic;
pub(crate) mod holders;

pub use activity::Activity;
pub use holders::{Holders, MAX_HOLDERS};
