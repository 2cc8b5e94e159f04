//! Devices, their contexts, and the contexts' streams: one tree, in which what ends takes its own
//! along and nothing else.
//!
//! *In*: contexts and streams under names that `find` gives them. *Out*: records that show what
//! each has on the device. *Invariant*: a record is live, then draining, then free. Live: its
//! handle may be used by any thread. Draining: its handle means nothing any more, or is about to,
//! and nobody passes it to the driver; work that it had counts until a mark behind it has come, or
//! the end of its context is known to have waited for it. Free: nothing of it is left on the
//! device, and the next one takes its place.
//!
//! Each context has a mapping of its device's page, and words for marks, that are registered in it
//! alone: a registration ends with the context that made it. Records are never given back to the
//! system, and taken again.

pub(crate) mod branch;
pub(crate) mod context;
mod list;
mod memory;
pub(crate) mod stream;
