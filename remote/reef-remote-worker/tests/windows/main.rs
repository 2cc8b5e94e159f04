//! Sessions that need a window: a process has addresses for eight of them, so not all tests of the
//! client's library have room in one.

#[path = "../support/alone.rs"]
mod alone;
mod away;
#[path = "../../../../interpose/reef-shim/tests/common/mod.rs"]
mod common;
#[path = "../support/gate.rs"]
mod gate;
mod memory;
#[path = "../support/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;
