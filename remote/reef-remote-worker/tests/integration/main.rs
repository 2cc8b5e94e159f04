//! Sessions of a server whose programs are clients that speak for themselves, or processes.

#[path = "../../../../interpose/reef-shim/tests/common/mod.rs"]
mod common;
mod listed;
mod printed;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../../reef-cudart/tests/support/mod.rs"]
mod programs;
#[path = "../support/proxy.rs"]
mod proxy;
mod rights;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod runtime;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tenants.rs"]
mod tenants;
