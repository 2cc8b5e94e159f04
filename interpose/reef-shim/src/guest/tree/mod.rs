//! Tree of devices, their contexts, and the contexts' streams. The end of a record ends its own
//! children and nothing else.
//!
//! *In*: contexts and streams under names that `find` gives them. *Out*: records of their work on
//! the device. *Invariant*: a record is live, then draining, then free. Live: any thread may use
//! its handle. Draining: its handle is invalid, or about to become so, and no thread passes it to
//! the driver; its work counts until a mark after it has come, or the end of its context is known
//! to have waited for it. Free: none of its work is left on the device, and the next context or
//! stream may use the record.
//!
//! Each context has a mapping of its device's page, and words for marks, that are registered in it
//! alone: a registration ends with the context that made it. Records are reused, and their memory
//! is never freed.

pub(crate) mod branch;
pub(crate) mod context;
mod list;
pub(crate) mod memory;
pub(crate) mod stream;
