//! AMD's runtime on the software device with the configuration of an MI50. One device, so tests
//! take turns.

mod load;
mod runtime;
#[path = "../support/mod.rs"]
mod support;
