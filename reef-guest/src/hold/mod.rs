//! Who holds best-effort work, and when a real-time guest does.
//!
//! *In*: launches of a real-time guest, and looks at whether they have ended. *Out*: the holders word of each
//! best-effort guest, which its device waits on. *Invariant*: between a launch's start and the first release that
//! knows of its end, the real-time guest's bit stands in every peer's word.

pub(crate) mod activity;
mod atomic;
pub(crate) mod holders;

pub use activity::Activity;
pub use holders::{Holders, MOST_HOLDERS};
