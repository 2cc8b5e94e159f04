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
//! * [`Backend`] names the types of an accelerator; [`Device`], which opens one, is the only generic
//!   parameter.
//! * [`Queue`] is one hardware queue (a stream). It is owned by one thread at a time.
//! * [`Preemptor`] stops work that the hardware already holds.
//! * [`VirtualQueue`] keeps the hardware queue short, so that stopping is quick.
//! * [`Group`] preempts several virtual queues with one flag.
//! * [`scheduler`] decides who runs; the [`Dispatcher`] applies it for many clients.
//! * [`dkp`] sizes best-effort blocks to fill the units that a real-time kernel leaves idle.
//! * [`op`] describes what the launches of a neural network compute.

#![deny(unsafe_code)]

mod best_effort;
mod command;
mod config;
mod device;
mod dispatcher;
pub mod dkp;
mod error;
#[cfg(test)]
mod fake;
mod group;
mod host;
mod lane;
pub mod op;
mod real_time;
#[allow(unsafe_code)] // see its module docs
mod ring;
mod rt_lane;
pub mod scheduler;
mod stopwatch;
mod submitter;
mod sync;
mod turnstile;
mod vqueue;
mod wake;
mod worker;

pub use best_effort::{BeClient, ClientConfig};
pub use command::{Args, Command, Copy, Dim3, Fill, HostFn, Launch};
pub use config::Config;
pub use device::{
    Backend, Checkpoint, Colocation, Device, DeviceInfo, Drained, Event, NoGraph, PreemptLevel,
    Preemptor, Priority, Queue, Seq, Span,
};
pub use dispatcher::{Dispatcher, Stats};
pub use error::{Error, Result};
pub use group::Group;
pub use host::HostMemory;
pub use real_time::{RtClient, Task, Ticket, Timing};
pub use stopwatch::Stopwatch;
pub use submitter::Submitter;
pub use vqueue::VirtualQueue;
