//! Turns of a device; the rest of this folder needs a system.

use super::atomic;

#[path = "../../../src/limit/usage/turn.rs"]
mod turn;
