//! Tests of the command `reef`, each run as a process.

#![allow(clippy::disallowed_methods)] // of files that the tests have written

#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "daemon")]
mod calibrate;
#[cfg(feature = "daemon")]
mod check;
#[cfg(feature = "bench")]
mod cli;
mod common;
#[cfg(feature = "daemon")]
mod ctl;
#[cfg(feature = "daemon")]
mod daemon;
#[cfg(feature = "bench")]
mod disb;
#[cfg(feature = "bench")]
mod disb_daemon;
#[cfg(feature = "daemon")]
mod doctor;
#[cfg(feature = "daemon")]
mod elsewhere;
#[cfg(feature = "daemon")]
mod exec;
#[path = "../../../../reef-models/tests/handmade/mod.rs"]
mod handmade;
#[cfg(feature = "bench")]
mod help;
#[path = "../../../../remote/reef-remote-worker/tests/support/memory.rs"]
mod memory;
mod migration;
#[cfg(feature = "daemon")]
mod migration_devices;
mod models;
mod remote;
#[cfg(feature = "daemon")]
mod residency;
mod run;
#[cfg(feature = "daemon")]
mod serve;
mod snapshots;
#[cfg(feature = "daemon")]
mod suspend;
#[cfg(feature = "bench")]
mod terminal;
