//! A session in another process: what all sorts of sessions share.
//!
//! *In*: a session that stands still, and another server or a file. *Out*: numbers about its way
//! there. *Invariant*: none of its own.

pub(crate) mod session;
pub(crate) mod target;

pub use session::{Each, Frozen, Migrate, Region, Report, Write};
pub use target::Target;
