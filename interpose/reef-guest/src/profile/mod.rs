//! Profile of a program's driver calls: counts, host times, bytes.
//!
//! *In*: calls, as they end, each from its own thread ([`Recorder`]). *Out*: totals ([`Totals`]) as
//! Alnair's files ([`alnair`]), a table for display ([`table`]), events for Perfetto ([`trace`]).
//! *Invariant*: recording takes no lock and allocates nothing; each thread writes its own profile
//! ([`ThreadProfile`]), and its counts stay when the thread ends.

mod api;
mod histogram;
mod kernels;
mod options;
mod recorder;
mod report;
mod ring;
#[cfg(test)]
mod tests;
mod thread_profile;
mod totals;

pub use api::{Api, Set};
pub use histogram::Histogram;
pub use options::{ProfileOptions, Version};
pub use recorder::{MAX_THREADS, Recorder};
pub use report::{alnair, table, trace};
pub use ring::{Call, Event};
pub use thread_profile::ThreadProfile;
pub use totals::{KernelTotal, Total, Totals};
