//! Tests of the library from outside.

#![allow(clippy::disallowed_methods)] // of files that the tests have written

mod beside;
mod descriptors;
mod registry;
