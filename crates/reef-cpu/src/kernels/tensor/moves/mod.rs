//! Singles from elsewhere.
//!
//! In: a move that was checked, and its input. Out: parts of the output. What lies in runs is
//! copied by runs (`runs`); rows and columns that change places go by tiles (`turned`).
//!
//! Invariant: a block is short enough (some ten microseconds) to write its outputs as it makes
//! them, and polls the stop word before.

pub(super) mod runs;
#[cfg(target_arch = "x86_64")]
mod tile;
pub(super) mod turned;
