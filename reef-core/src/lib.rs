//! Preemptive scheduling of accelerator work, independent of the accelerator.
//!
//! A command travels one way:
//!
//! ```text
//! submit ──▶ ring ──▶ worker ──▶ Queue::launch ──▶ hardware
//!            [completed ≤ launched ≤ submitted]        │
//!               ▲                                      │
//!               └────────── Queue::completed ──────────┘
//! ```
//!
//! * [`Device`] opens an accelerator and names its types. It is the only generic parameter.
//! * [`Queue`] is one hardware queue (a stream). It is owned by one thread at a time.
//! * [`Preemptor`] stops work that the hardware already holds.
//! * [`VirtualQueue`] keeps the hardware queue short, so that stopping is quick.
//! * [`Group`] preempts several virtual queues with one flag.
//! * [`dkp`] sizes best-effort blocks to fill the units that a real-time kernel leaves idle.
//! * [`op`] describes what the launches of a neural network compute.

#![deny(unsafe_code)]

mod command;
mod device;
pub mod dkp;
mod error;
mod group;
mod lane;
pub mod op;
#[allow(unsafe_code)] // see its module docs
mod ring;
pub mod scheduler;
mod sync;
mod turnstile;
mod vqueue;
mod wake;

pub use command::{Args, Command, Copy, Dim3, Fill, HostFn, Launch};
pub use device::{
    Device, DeviceInfo, Event, PreemptLevel, Preemptor, Priority, Queue, Record, Seq, Stopped,
};
pub use error::{Error, Result};
pub use group::Group;
pub use vqueue::{Config, Submitter, VirtualQueue};
