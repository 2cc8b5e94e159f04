//! Resources of a server's machine that sessions take, and their bounds.

use serde::{Deserialize, Serialize};

/// Resource that the sessions of a tenant share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Resource {
    /// Bytes of the device's memory. The rights bound it.
    Memory,
    /// Threads: for calls that block, and for queues.
    Threads,
    /// Functions of the client's that stand in streams and graphs.
    Functions,
    /// Bytes of the state of a session that another server brings, before it runs, and of constants
    /// before they are packed.
    State,
    /// Bytes of the server's machine for launches, graphs, records and names of sessions of Rust
    /// programs.
    Objects,
}

impl Resource {
    pub(super) const ALL: [Self; 5] =
        [Self::Memory, Self::Threads, Self::Functions, Self::State, Self::Objects];

    /// Amount that each session has for itself.
    const fn own(self) -> u64 {
        match self {
            Self::Threads => 16,
            Self::Functions => 1024,
            Self::Objects => 64 << 20,
            Self::Memory | Self::State => 0,
        }
    }

    /// Part of a session's amount that counts as its tenant's.
    pub(super) const fn beyond_own(self, amount: u64) -> u64 {
        amount.saturating_sub(self.own())
    }

    /// Upper bound of what the sessions of a tenant have together, beyond their own.
    pub(super) const fn max(self) -> u64 {
        match self {
            Self::Memory => u64::MAX,
            Self::Threads => 4096,
            Self::Functions => 1 << 18,
            Self::State | Self::Objects => 4 << 30,
        }
    }

    /// Name and unit for messages.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Memory => ("memory", " bytes"),
            Self::Threads => ("threads", ""),
            Self::Functions => ("host functions", ""),
            Self::State => ("states and constants that come", " bytes"),
            Self::Objects => ("objects", " bytes"),
        }
    }
}
