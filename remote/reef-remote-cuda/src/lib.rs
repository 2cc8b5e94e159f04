//! `libcuda.so.1` for programs whose GPU is in another machine.
//!
//! ```text
//! program ──▶ calls ──▶ session ──frames──▶ worker at the server ──▶ driver
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `calls` | the driver's functions: what is known is answered here, the rest becomes messages |
//! | `state` | what is known: contexts of threads, functions, host memory, host functions |
//! | `session` | the connection, opened at the first call that needs it |
//! | `refused` | functions that are not there, each of which says its name |
//!
//! *In*: calls of a program that knows nothing of this. *Out*: messages of `reef-remote-calls`.
//! *Invariant*: no call reaches a driver of this machine, and nothing is written to the program's
//! output.
//!
//! Without `REEF_REMOTE` (a server's address), or without a server there, `cuInit` finds no device.
//!
//! x86-64 Linux alone: elsewhere the library is empty.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod calls;
mod played;
mod refused;
mod session;
mod state;
