//! Page of memory that a guest and its daemon share with no other process.
//!
//! *In*: a memory file from the daemon. *Out*: its words at fixed offsets, among them the guest's
//! counters and the times for which it was held. *Invariant*: the file can't change its size, so no
//! access faults, whatever the other process does; only atomics are read from it, and a wrong value
//! does no further harm: the daemon itself knows which guests are holders or real-time.

pub(crate) mod file;
pub(crate) mod iterations;
pub(crate) mod layout;
pub(crate) mod mapping;
pub(crate) mod mps_cost;
pub(crate) mod spans;
pub(crate) mod times;

pub use file::PageFile;
pub use iterations::{Iteration, Iterations, MAX_ITERATIONS};
pub use layout::{BYTES, Class, Counts, Identity, Page, VERSION};
pub use mapping::Mapping;
pub use mps_cost::{MpsCost, is_mps_served};
pub use spans::{MAX_SPANS, Spans, Time};
pub use times::{CallKind, ENDS, Times, TimesView};
