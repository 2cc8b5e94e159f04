//! Links through memory that both processes have mapped, next to a UNIX socket.
//!
//! ```text
//! sender ──bytes──▶ ring in shared memory ──▶ receiver         one ring for each direction
//!        ──one byte─▶ UNIX socket ──▶                          only if the receiver sleeps
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `cursor` | a position that one side moves, and whether the other one sleeps |
//! | `ring` | bytes between two cursors, in sealed memory that both have mapped |
//! | `link` | the two halves; the socket wakes, and says that the peer is gone |
//!
//! *In*: a connected UNIX socket. *Out*: a [`Link`](super::Link). *Invariant*: a receiver does not
//! sleep through bytes; whatever the peer writes into the memory, no byte outside of it is touched.

mod cursor;
mod link;
mod ring;
