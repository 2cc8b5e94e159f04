//! Functions that this library plays, by their names.

/// A function of this library.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) name: &'static str,
    pub(crate) ours: unsafe extern "C" fn(),
}

include!(concat!(env!("OUT_DIR"), "/played.rs"));
