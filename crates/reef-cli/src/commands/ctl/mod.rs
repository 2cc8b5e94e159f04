//! `reef ctl`: asks a running daemon for something, over its HTTP.
//!
//! - **In**: a daemon's place, and a model, a device or a configuration.
//! - **Out**: its answer as lines, tables or JSON. A refusal is an error with the daemon's reason.
//! - **Invariant**: no state is kept here; each command is one or a few requests.

pub(crate) mod command;
mod config;
mod devices;
mod models;
mod status;
mod trace;
