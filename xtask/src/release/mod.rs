//! `cargo xtask release`: what a release consists of.
//!
//! Input are the workspace's manifests and `CHANGELOG.md`. Output are the packages in the order in
//! which a registry takes them, and the section of the changelog. With `--dry-run` there are
//! archives, a Debian package, a wheel, bills of materials and checksums of all. Each that can be
//! installed is tried in a root that has neither Rust nor this repository.
//!
//! Nothing is ever published from here.

pub(crate) mod changelog;
pub(crate) mod order;
pub(crate) mod run;
pub(crate) mod workspace;
