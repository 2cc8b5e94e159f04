//! What an unmodified program shares with REEF's daemon and with other programs on the same device.
//!
//! A *guest* is a process on one device. Each has a [`page`] of shared memory, on which a
//! best-effort guest's device waits, and which real-time guests close by one atomic operation each
//! ([`hold`]). [`pace`] says after how many launches a gate is due and how far a thread may run
//! ahead; [`join`] is how a guest gets its page, and [`registry`] how a daemon gives it. [`limit`]
//! is how much of a device a job may have, and [`library_path`] where the driver's libraries may
//! be. [`profile`] counts and times a program's calls.
//!
//! Nothing here knows a driver or keeps global state, and nothing that a launch passes through
//! allocates.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
pub mod unix_peer;
