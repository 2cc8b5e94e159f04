//! Models with open sizes: a network for each set of request shapes.
//!
//! ```text
//! request ── shapes ──► Variants ── exists ──► Variant ──► instances that wait for requests
//!                          └────── missing ─► VariantFactory (not on I/O threads) ──► Variant
//! ```
//!
//! - **In**: declarations of files, shapes of requests.
//! - **Out**: variants: networks for fixed shapes, with an instance for each worker.
//! - **Invariant**: a variant's memory is reserved before it is allocated. The variants of a
//!   principal are bounded; a request of one principal never evicts a variant that another has used
//!   since. Variants that `model.toml` names stay.

pub(crate) mod factory;
pub(crate) mod on_demand;
pub(crate) mod variant;
pub(crate) mod variants;
