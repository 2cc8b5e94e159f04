//! The cases, each a function of a device and a level that panics if the device fails it.
//!
//! [`suite!`](crate::suite) makes tests of them; call one directly to run it on a device that is
//! open.

#![allow(missing_docs, clippy::missing_panics_doc)] // a case's name is the property that it checks

pub mod clients;
pub mod errors;
pub mod graphs;
pub mod operands;
pub mod order;
pub mod padding;
pub mod parking;
pub mod preemption;
pub mod starvation;
pub mod times;
