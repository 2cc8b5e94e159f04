//! The interpreter on kernels that compilers made, and the device in processes of its own. The
//! other test files are programs of their own: a process has one device with one configuration.

#[path = "../common/mod.rs"]
mod common;
mod features;
mod fuzz;
mod kernels;
mod repeat;
mod shipped;
#[path = "../support/mod.rs"]
mod support;
