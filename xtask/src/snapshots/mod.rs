//! `cargo xtask snapshots`: the names and texts that others rely on, as files in
//! `tests/snapshots/`.
//!
//! In: the sources of all crates, without their tests. Out: public items, texts of errors, keys of
//! JSON and numbers of formats, one file each and crate, compared with those that are tracked.
//! Invariant: a change of one of these shows as a changed line in a review.
//!
//! All is read from the text of the sources: nothing is compiled, and what a macro makes is not
//! seen.

mod api;
pub(crate) mod check;
mod crates;
mod errors;
mod items;
mod keys;
mod metrics;
mod versions;

#[cfg(test)]
mod tests;
