//! Models whose sizes are open: a network for each set of shapes that requests come with.
//!
//! ```text
//! request ── shapes ──► Variants ── there ──► Variant ──► instances that wait for requests
//!                          └────── not yet ──► Maker (off the threads of I/O) ──► Variant
//! ```
//!
//! - **In**: what a file declares, shapes of requests.
//! - **Out**: variants: a network for fixed shapes, with an instance for each lane.
//! - **Invariant**: a variant's memory is reserved before it is allocated. A principal has only so
//!   many variants; what one principal asks for never takes one that another has used since. Those
//!   that `model.toml` names stay.

pub(crate) mod factory;
pub(crate) mod variant;
pub(crate) mod variants;
