//! `cargo xtask layers`: imports inside of a crate run down.
//!
//! In come the sources of a crate. Every `use` line and every path is taken to the file that
//! defines the name, through re-exports, `super` and `use crate::{..}`; unit tests are left out.
//! Out come the faults: a circle between the files or folders of one folder, and a name that a file
//! takes through a *face*. A face is a file that declares other files: `lib.rs`, `main.rs`,
//! `mod.rs`.
//!
//! Targets of method calls are not seen, nor items that a macro makes.

pub(crate) mod check;
mod circles;
mod resolve;
mod source;
