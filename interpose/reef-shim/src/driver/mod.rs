//! Real driver: its library, one slot for each of its functions, and calls of our own.
//!
//! *In*: a call of an exported function, or a call of our own. *Out*: the same call of the real
//! driver. *Invariant*: nothing is opened before the first call; a thunk changes no argument; no
//! lock is held while the real driver runs, except while its library is opened; a call of our own
//! in `with_relaxed_capture` breaks no capture of the program; a withheld function is not found.

pub(crate) mod calls;
pub(crate) mod library;
pub(crate) mod lists;
pub(crate) mod lookup;
pub(crate) mod pause;
pub(crate) mod pause_gate;
pub(crate) mod primary;
pub(crate) mod slots;
pub(crate) mod state;
mod thunks;
pub(crate) mod withheld;

/// Slots by name, and names by slot.
#[allow(non_upper_case_globals, dead_code)]
pub(crate) mod names {
    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}
