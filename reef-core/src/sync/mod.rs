//! The protocols between threads, one tree for this crate and for its loom models
//! (`reef-core/loom`).
//!
//! *In*: values and wake-ups of one thread. *Out*: the same on another thread. *Invariant*: no
//! value, no wake-up and no visit is lost, however threads interleave; each file says by which
//! steps, and its model tries them all.

pub(crate) mod combiner;
pub(crate) mod drops;
pub(crate) mod park;
pub(crate) mod primitives;
#[allow(unsafe_code)] // see its module docs
pub(crate) mod ring;
pub(crate) mod turns;
pub(crate) mod wait_list;
