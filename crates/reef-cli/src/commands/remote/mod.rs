//! `reef remote`: this machine's devices for programs elsewhere, and their sessions.
//!
//! A server has a control socket in the folder of the daemon's sockets, by which the other commands
//! look at its sessions and end them. Another user cannot open it, and no other machine can.

pub(crate) mod command;
#[cfg(feature = "daemon")]
mod control;
#[cfg(feature = "daemon")]
mod end;
mod lines;
#[cfg(feature = "daemon")]
mod migration;
#[cfg(feature = "daemon")]
mod ps;
mod serve;
#[cfg(feature = "daemon")]
mod trace;
