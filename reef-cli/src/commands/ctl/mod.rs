//! Asking a running daemon for something.

pub(crate) mod trace;
