//! Commands of one file each: arguments come in, a report on stdout goes out.
//!
//! None of them knows another. `executable` and `limits` are questions of `exec` alone.

#[cfg(feature = "daemon")]
pub(crate) mod client;
pub(crate) mod completions;
pub(crate) mod devices;
#[cfg(feature = "daemon")]
pub(crate) mod exec;
#[cfg(feature = "daemon")]
mod executable;
#[cfg(feature = "daemon")]
pub(crate) mod k8s;
#[cfg(not(all(feature = "bench", feature = "daemon")))]
pub(crate) mod left_out;
#[cfg(feature = "daemon")]
mod limits;
pub(crate) mod profile;
#[cfg(feature = "daemon")]
pub(crate) mod serve;
#[cfg(feature = "bench")]
pub(crate) mod simulate;
#[cfg(feature = "daemon")]
pub(crate) mod trace;
