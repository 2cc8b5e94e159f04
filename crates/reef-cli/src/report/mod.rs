//! Output of all commands: lines, tables, plots, files of results, progress on a terminal.
//!
//! In come rows and their columns; out go text on stdout and files. Nothing here measures.

pub(crate) mod chart;
pub(crate) mod checks;
#[cfg(feature = "daemon")]
pub(crate) mod class;
#[cfg(feature = "bench")]
pub(crate) mod columns;
#[cfg(feature = "daemon")]
pub(crate) mod date;
pub(crate) mod device;
#[cfg(feature = "daemon")]
pub(crate) mod log;
pub(crate) mod output;
pub(crate) mod progress;
#[cfg(feature = "bench")]
pub(crate) mod results;
pub(crate) mod size;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod usage;
