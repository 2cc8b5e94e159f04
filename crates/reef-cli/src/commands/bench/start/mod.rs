//! `reef bench start`: how soon a real-time kernel runs on a device that is full.
//!
//! The real-time kernel is one block that does nothing but write its cell. It is submitted now and
//! then while a best-effort client keeps the device full, and before and after that on the idle
//! device by the same code. Two times are taken: until the device could start it
//! ([`reef::Timing::delay`]), and until its only block has run. The second is what is compared with
//! the idle device: a stream may be free to start long before a unit is. In turns with the requests
//! on the idle device there are bare launches of the same kernel, which say what is the device's
//! and its driver's own.

pub(crate) mod args;
pub(crate) mod bare;
pub(crate) mod inferences;
pub(crate) mod load;
pub(crate) mod measure;
pub(crate) mod pace;
pub(crate) mod preempt_restore;
pub(crate) mod report;
pub(crate) mod run;
