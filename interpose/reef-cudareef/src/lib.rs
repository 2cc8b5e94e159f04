//! `libcudareef.so`: what programs of REEF's CUDA port call, on an unmodified driver.
//!
//! ```text
//! enablePreemption ──► a slot: two words that host and device share
//! preempt          ──► into the stream: write `mark`, then wait for `gate`
//! restore          ──► the host stores `gate`
//! ```
//!
//! Work that is submitted behind a closed gate waits on the device, in order; earlier work runs to
//! its end. The numbers of a slot only grow, so a late write or wait of an old gate harms
//! no new one.
//!
//! The port itself replaces the driver and keeps commands in queues of its own. This library
//! doesn't: docs/cudareef.md says what follows.

mod api;
mod driver;
mod fault;
mod slots;
mod streams;

pub use api::{
    RFconfig, disablePreemption, enablePreemption, preempt, reefPreemptError, reefPreemptLevel,
    restore,
};
