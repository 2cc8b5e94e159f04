//! Variants: kernels that can be stopped between blocks, or launched in slices.
//!
//! In goes a kernel that may be stopped; out comes a text with it alone. It has one parameter more
//! ([`Launch`]) and a prologue. In its body, reads of the block's index and of the grid's size are
//! replaced. Everything else stays byte for byte, but for `.loc`.
//!
//! **Exactly once.** Each block has a byte in a map, which only its own first thread writes. Before
//! any effect that thread decides: the block runs, or it records itself and leaves. One barrier
//! gives all threads the same verdict. A block that runs, runs to its end or to a preemption point.
//!
//! Runs have numbers, which rise. The stop word has the number of the last run that is to stop, so
//! that a word that is written late stops no later run.
//!
//! | mode | byte before | is to stop | the block | byte after |
//! |---|---|---|---|---|
//! | first run | 0 | no | runs | 0 |
//! | first run | 0 | yes | leaves | 1 |
//! | resume | 0 | any | leaves: it ran before | 0 |
//! | resume | 1 | no | runs | 0 |
//! | resume | 1 | yes | leaves | 1 |
//! | needless resume | any | any | leaves | as before |
//!
//! A variant may also have *preemption points* (`preemption_point.rs`): places in loops, before any
//! effect, where all threads of a running block leave together. Its byte is 1 then, as if the block
//! had not begun.
//!
//! A stopped block writes the number of its run to a word, so a resume knows whether the runs
//! before have left blocks. All bytes are zero when the kernel is complete, so a map needs no
//! clearing.

pub(crate) mod build;
pub(crate) mod guard;
pub(crate) mod offset;
pub(crate) mod parameter;
pub(crate) mod preemption_point;
pub(crate) mod prune;
pub mod slices;

pub use build::Variant;
pub use parameter::{Launch, Mode};
pub use slices::{Launched, Slice, slices};
