//! The real driver, and one slot for each of its functions.
//!
//! *In*: a call of a function that we export. *Out*: the same call of the real driver's.
//! *Invariant*: nothing is opened before the first call; a thunk touches no argument; no lock is
//! held while the real driver runs, except that its library is opened once.

pub(crate) mod calls;
pub(crate) mod library;
pub(crate) mod lookup;
pub(crate) mod slots;
pub(crate) mod state;
mod thunks;

/// Slots by name, and names by slot.
#[allow(non_upper_case_globals, dead_code)]
pub(crate) mod names {
    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}
