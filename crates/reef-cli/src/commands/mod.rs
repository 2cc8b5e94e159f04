//! Commands of one file or folder each: arguments come in, a report on stdout goes out.
//!
//! They share little: `ctl config` reads what `serve` does, and `doctor` finds what `exec` does.

#[cfg(feature = "bench")]
pub(crate) mod bench;
#[cfg(feature = "daemon")]
pub(crate) mod check;
pub(crate) mod completions;
#[cfg(feature = "daemon")]
pub(crate) mod ctl;
pub(crate) mod demo;
pub(crate) mod devices;
#[cfg(feature = "daemon")]
pub(crate) mod doctor;
#[cfg(feature = "daemon")]
pub(crate) mod exec;
#[cfg(feature = "daemon")]
pub(crate) mod k8s;
#[cfg(not(all(feature = "bench", feature = "daemon", feature = "remote")))]
pub(crate) mod left_out;
pub(crate) mod man;
pub(crate) mod model;
#[cfg(feature = "remote")]
pub(crate) mod remote;
#[cfg(feature = "daemon")]
pub(crate) mod request;
pub(crate) mod restore;
pub(crate) mod run;
#[cfg(feature = "daemon")]
pub(crate) mod serve;
#[cfg(feature = "bench")]
pub(crate) mod simulate;
#[cfg(feature = "daemon")]
pub(crate) mod suspend;
#[cfg(feature = "daemon")]
pub(crate) mod top;
