//! Turns of a device; the rest of this folder needs a system.

use super::atomic;

#[path = "../../../src/limit/time/turn.rs"]
mod turn;
