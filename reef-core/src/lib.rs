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
//! * [`Backend`] names the types of an accelerator; [`Device`], which opens one, is the only
//!   generic parameter.
//! * [`Queue`] is one hardware queue (a stream). It is owned by one thread at a time.
//! * [`Preemptor`] stops work that the hardware already holds.
//! * [`VirtualQueue`] keeps the hardware queue short, so that stopping is quick.
//! * [`Group`] preempts several virtual queues with one flag.
//! * [`scheduler`] decides which queues run; the [`Dispatcher`] applies it for many clients.
//! * [`dkp`] sizes best-effort blocks to fill the units that a real-time kernel leaves idle.

#![deny(unsafe_code)]

mod backend;
mod dispatch;
mod limits;
pub mod scheduler;
mod suggest;
mod sync;
mod testing;
mod vqueue;

pub use backend::blocks::Blocks;
pub use backend::command::{Args, Command, Copy, Dim3, Fill, HostFn, Launch, MemoryHandle};
pub use backend::device::Device;
pub use backend::error::{Error, InvalidArgument, Result};
pub use backend::host_memory::HostMemory;
pub use backend::info::{Caps, Colocation, DeviceInfo, PreemptLevel, Priority, Seq, Span};
pub use backend::launch_builder::{Arg, LaunchBuilder};
pub use backend::preemptor::Preemptor;
pub use backend::queue::{Drained, Queue, issue};
pub use backend::stopwatch::Stopwatch;
pub use backend::types::{Backend, Checkpoint, Event, NoGraph};
pub use backend::words;
pub use dispatch::be_client::BeClient;
pub use dispatch::dispatcher::Dispatcher;
pub use dispatch::neighbours::Neighbours;
pub use dispatch::padding_plan as dkp;
pub use dispatch::queues::account::{Account, Usage};
pub use dispatch::queues::task::{Task, Timing};
pub use dispatch::rt_client::RtClient;
pub use dispatch::state::Stats;
pub use dispatch::ticket::Ticket;
pub use limits::{Class, ClientConfig, Rate};
pub use suggest::{did_you_mean, did_you_mean_in};
pub use testing::cells::{Cells, appended};
pub use vqueue::config::Config;
pub use vqueue::group::Group;
pub use vqueue::parked::Parked;
pub use vqueue::submitter::Submitter;
pub use vqueue::virtual_queue::VirtualQueue;
