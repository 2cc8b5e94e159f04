//! The file of a snapshot, version 1.
//!
//! *In*: a manifest and the contents of memory. *Out*: one file, `network.reef`, which is whole or
//! not there. *Invariant*: nothing of a file is used before all of it has been checked. Whatever
//! its numbers say, reading allocates one chunk, a few times the length of the manifest, and a
//! bounded note.
//!
//! | bytes | contents |
//! |---|---|
//! | 8 | `REEFSNAP` |
//! | 4 | version of the format, 1, lowest byte first |
//! | | chunks, one after the other, in the order of the manifest |
//! | | the manifest, JSON |
//! | 8 | length of the manifest |
//! | 32 | BLAKE3 digest of the manifest |
//! | 8 | `REEFDONE` |
//!
//! Memory is cut into chunks of 2 MiB, of which the last of a region may be shorter. A chunk of
//! zeros is left out, and chunks with the same contents are stored once. The manifest has the
//! digest and the length of each chunk. Every byte of the file is compared with a constant or is
//! below a digest.

pub mod file;
pub mod layout;
pub mod manifest;
mod note;
pub(crate) mod reader;
pub(crate) mod writer;
