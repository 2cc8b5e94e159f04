//! This process as a guest: what it was told to be, and which devices it has joined.
//!
//! *In*: the environment, once; contexts that launches come from. *Out*: for each context the page to wait on, in the
//! device's own address. *Invariant*: joining happens once per device, off the path of all later launches; whatever
//! fails leaves the context alone, and its calls are passed on.

pub(crate) mod attach;
pub(crate) mod calls;
pub(crate) mod capture;
pub(crate) mod contexts;
pub(crate) mod device;
pub(crate) mod entries;
pub(crate) mod explain;
pub(crate) mod keeper;
