//! Tests of the library from outside.

mod beside;
mod descriptors;
mod registry;
