//! `cargo xtask stale tests|clippy|docs`: runs a step for the packages alone whose inputs are not
//! those with which it has passed.
//!
//! In come the packages as cargo says them, and the files that git knows. A package's inputs are
//! the compiler, the lock file, the profiles, `.cargo`, its own files, those of all packages that
//! it uses, and what it reads elsewhere (`inputs.rs` has a table, and checks it). Their hash is
//! looked up in `target/gate/` and in `.ci/passed/`, which commits carry.
//!
//! All packages of a command have the features that they have when the whole workspace is built,
//! by the package in `xtask/unify/`, so nothing is compiled for this twice.

pub(crate) mod check;
mod examples;
mod files;
mod hashes;
mod inputs;
mod passed;
mod programs;
pub(crate) mod run;
mod table;
pub(crate) mod unify;
pub(crate) mod workspace;
