//! Tests of the library from outside.

mod descriptors;
mod registry;
