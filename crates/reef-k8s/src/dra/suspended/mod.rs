//! Memory of suspended programs, which other claims may have until these return.
//!
//! *In*: the daemon's list of suspended programs, the prepared claims. *Out*: bytes that the
//! capacity of each GPU grows by ([`SpareMemory`](spare::SpareMemory)). *Invariant*: a best-effort
//! claim gives back at most what the scheduler counts for it, and at most what its suspended
//! programs had on that GPU. Programs of no claim give nothing back, because the scheduler has not
//! counted them. Without an answer of the daemon for a time, nothing is given back.
//!
//! The daemon is asked, and its records aren't read: their process numbers are those of the
//! daemon's PID namespace.

pub(super) mod answer;
pub(super) mod programs;
pub(super) mod spare;
