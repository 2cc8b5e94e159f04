//! Kernel launches, and the compute units that their workgroups are placed on.
//!
//! - **In**: packets and kernel descriptors, as AMD's runtime writes them.
//! - **Out**: waves before their first instruction, and what a workgroup takes of a unit.
//! - **Invariant**: a launch that has been read fits on an empty unit.

pub(crate) mod launch;
pub(crate) mod unit;
