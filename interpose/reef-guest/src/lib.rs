//! State that an unmodified program shares with REEF's daemon and with other programs on its
//! device.
//!
//! A *guest* is a process on one device. Each guest has a [`page`] of shared memory. A best-effort
//! guest's device waits on a word of it, and a holder closes that gate by one atomic operation
//! ([`hold`]). [`pace`] decides after how many launches a gate is due and how far a thread may run
//! ahead, and [`colocation`] what passes next to busy real-time programs. A guest gets its page by
//! [`join`], and a daemon gives it by [`registry`]. [`limit`] bounds the memory and the time of a
//! job on a device. [`library_path`] finds and opens the driver's libraries, and [`thunk!`] defines
//! functions that jump into them. [`profile`] counts and times a program's calls. [`swap`] asks a
//! program to leave its GPU's memory.
//!
//! Nothing here calls a driver or keeps global state, and nothing on the path of a launch
//! allocates.

#![cfg_attr(test, allow(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod colocation;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod hold;
pub mod join;
pub mod library_path;
pub mod limit;
pub mod mmap;
pub mod pace;
pub mod page;
pub mod profile;
pub mod registry;
pub mod slots;
#[cfg(target_os = "linux")]
pub mod swap;
mod thunk;
pub mod unix_peer;

pub use reef_files::variable;
