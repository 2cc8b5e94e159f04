//! The client's library in this process, one test at a time: the library reads the environment, and
//! what a server starts is told from others by when it started.

#[path = "../support/alone.rs"]
mod alone;
#[path = "../../../../interpose/reef-shim/tests/common/mod.rs"]
mod common;
#[path = "../../../../interpose/reef-shim/tests/random/graphs.rs"]
mod graphs;
mod local;
mod nodes;
#[path = "../../../../interpose/reef-shim/tests/random/program.rs"]
mod program;
#[path = "../support/proxy.rs"]
mod proxy;
mod quotas;
mod random;
mod reconnect;
mod replay;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tenants.rs"]
mod tenants;
#[path = "../../../../interpose/reef-shim/tests/random/thread.rs"]
mod thread;
