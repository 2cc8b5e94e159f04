//! The functions of `reef.h`, one file for each kind of handle.
//!
//! *In*: pointers and numbers of C. *Out*: a status, and what the caller has a place for.
//! *Invariant*: each function is one call of [`answer`](crate::guard::answer), checks all it gets
//! before it does anything, and leaves its outputs alone if it fails.

pub(crate) mod args;
pub(crate) mod client;
pub(crate) mod device;
pub(crate) mod dispatcher;
pub(crate) mod library;
pub(crate) mod network;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod tensor;
#[cfg(test)]
mod tests;
pub(crate) mod types;
