//! Devices of another machine: servers and clients in this process.

mod conformance;
mod eight_bits;
mod frames;
mod migrated_conformance;
mod migration;
mod networks;
mod observe;
mod preemption;
mod reconnect;
#[path = "../support/mod.rs"]
mod support;
mod tenants;
