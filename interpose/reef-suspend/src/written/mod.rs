//! Processes of the host in a folder, while nothing of theirs is on a GPU.
//!
//! *In*: a suspended process. *Out*: a folder that CRIU has written, from which the process starts
//! again under its number. *Invariant*: a folder is whole or not there, and nothing starts from one
//! that is not as it was written.

pub(crate) mod absence;
pub(crate) mod accounts;
pub(crate) mod adopted;
pub(crate) mod criu;
mod file_hash;
pub(crate) mod files;
pub(crate) mod numbers;
mod proc;
pub(crate) mod start;
pub(crate) mod tree;
