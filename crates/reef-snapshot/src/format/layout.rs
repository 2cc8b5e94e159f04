//! Sizes and signs of a file.

/// Bytes of a chunk.
pub const CHUNK: usize = 2 << 20;

/// Version of the format.
pub const VERSION: u32 = 1;

/// Upper bound of the bytes of a manifest: 64 MiB.
pub const MAX_MANIFEST: u64 = 64 << 20;

pub(crate) const MAGIC: [u8; 8] = *b"REEFSNAP";
pub(crate) const END: [u8; 8] = *b"REEFDONE";
pub(crate) const HEADER: u64 = 8 + 4;
pub(crate) const TRAILER: u64 = 8 + 32 + 8;
