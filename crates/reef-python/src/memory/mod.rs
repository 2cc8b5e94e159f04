//! Memory that requests and other libraries of the process use.
//!
//! *In*: arrays of NumPy and of other libraries. *Out*: inputs where a request finds them, and its
//! outputs as arrays. *Invariant*: memory is used for one thing at a time, until the last array, or
//! capsule of one, is dropped.
//!
//! From top to bottom: `inputs`, `pool` (instances and memory for outputs), `array`, `ports`,
//! `dlpack`.

pub(crate) mod array;
pub(crate) mod dlpack;
pub(crate) mod inputs;
pub(crate) mod pool;
pub(crate) mod ports;
