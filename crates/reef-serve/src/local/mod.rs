//! Fast path for clients on the same machine: requests through shared memory.
//!
//! ```text
//! client                         one memfd, sealed                    daemon: a thread per client
//!   │  input ──► buffer j, slot i ─ kind, j ─► [requests: cursor, asleep] ──► write, run, read   │
//!   │  output ◄─ buffer j, slot i ◄ code ◄──── [answers:  cursor, asleep] ◄──                    │
//!   └───────────── Unix socket: hellos, memfd, then nothing until the end ───────────────────────┘
//!
//!     answered ≤ submitted ≤ answered + slots
//! ```
//!
//! - **In**: clients of the same user, over a Unix socket; requests, through memory that both map.
//! - **Out**: answers in the order of the requests, in the same memory.
//! - **Invariant**: the daemon creates the memory and seals its size, so an access cannot fail. A
//!   client's writes are numbers that are checked, or elements of its own tensors. The daemon keeps
//!   its own cursor and never reads it back.
//!
//! Each side polls for a while, then sleeps on the other's cursor ([`channel`]), and polls the
//! socket at an interval, because the end of a process closes it. A side that is about to move its
//! cursor wakes the other one early: the client when it begins to copy an input, the daemon shortly
//! before an inference ends.

pub(crate) mod channel;
pub(crate) mod client;
mod clock;
pub(crate) mod fd_passing;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub(crate) mod handshake;
pub(crate) mod mmap;
pub(crate) mod segment;
pub(crate) mod session;
pub(crate) mod slot;
pub(crate) mod sync;
