//! One page of memory that a guest and its daemon share, and nobody else.
//!
//! *In*: a memory file from the daemon. *Out*: its words, at fixed places, among them what the
//! guest did and when it was held. *Invariant*: the file can't change its size, so no access
//! faults, whatever the others do; all that is read from it is an atomic, and nobody believes more
//! of it than a wrong value can do: who may hold and who is real-time is the daemon's own
//! knowledge.

pub(crate) mod file;
pub(crate) mod layout;
pub(crate) mod mapping;
pub(crate) mod spans;
pub(crate) mod times;

pub use file::PageFile;
pub use layout::{BYTES, Class, Counts, Identity, Page, VERSION};
pub use mapping::Mapping;
pub use spans::{MAX_SPANS, Spans, Time};
pub use times::{CallKind, ENDS, Times, TimesView};
