//! `cargo xtask release`: what a release consists of.
//!
//! Input are the workspace's manifests, `Cargo.lock` and `CHANGELOG.md`. Output are the packages in
//! the order in which a registry takes them, a bill of materials, and the section of the changelog.
//! With `--dry-run` there are archives, a Debian package, a wheel and their checksums. Each is
//! installed and tried in a root that has neither Rust nor this repository.
//!
//! Nothing is ever published from here.

pub(crate) mod changelog;
pub(crate) mod order;
pub(crate) mod run;
pub(crate) mod sbom;
pub(crate) mod workspace;
