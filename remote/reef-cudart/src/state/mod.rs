//! Facts that the library knows of the program.
//!
//! *In*: registrations and calls. *Out*: the driver's handles. *Invariant*: a registration calls no
//! driver, and code is loaded once, at its first use.

pub(crate) mod context;
pub(crate) mod loaded;
pub(crate) mod registered;
