//! Tests of the library from outside.

#![allow(clippy::disallowed_methods)] // of files that the tests have written

mod colocation;
mod descriptors;
mod registry;
