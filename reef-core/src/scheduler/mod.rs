//! Schedulers: a [`Scheduler`] decides which work runs, the [`Dispatcher`](crate::Dispatcher)
//! applies.
//!
//! A scheduler sees numbers and gives numbers: no callbacks, no clock of its own, no I/O. So each
//! is tested with tables, simulated, and replaced without touching what moves the work.
//!
//! *In*: a [`View`] of queues and tasks, and the time. *Out*: a [`Plan`]. *Invariant*: the same
//! views at the same times give the same plans.
//!
//! | scheduler | real-time work | best-effort work meanwhile | source |
//! |---|---|---|---|
//! | [`Reef`] | at once | evicted and reset; pads real-time kernels | REEF, section 4 and 5 |
//! | [`Reef::without_padding`] | at once | evicted and reset | REEF's RESET |
//! | [`WaitBased`] | when running blocks have ended | evicted | REEF's WAIT |
//! | [`Streams`] | at once, same priority | runs on | REEF's STREAM |
//! | [`StreamPriority`] | at once, higher priority | runs on | CUDA's stream priorities |
//! | [`Sequential`] | when the running task has ended | one task at a time | REEF's SEQ |
//! | [`RtOnly`] | at once | never runs | REEF's RT |
//! | [`FixedPriority`] | at once, highest priority first | highest priority first, ageing | |
//! | [`EarliestDeadline`] | by deadline | by deadline | |
//! | [`FairShare`] | at once | by weight | |
//! | [`RtShare`] | around another one: one task at a time, by budget and turn | as the other one says, and the reserve | SFQ |
//! | [`LatencyTarget`] | as the other one says | as widely next to it as a target of latency allows | |

mod baseline;
mod by_name;
mod deadline;
mod fair;
mod ladder;
pub(crate) mod policy;
mod priority;
mod reef;
mod rt_share;
pub(crate) mod steady;
mod target;

pub use baseline::{RtOnly, Sequential, StreamPriority, Streams, WaitBased};
pub use by_name::{NAMES, by_name, no_scheduler};
pub use deadline::EarliestDeadline;
pub use fair::FairShare;
pub use ladder::WidthCounts;
pub use policy::{
    LaunchLimit, Plan, QueueView, RtEnd, RtTaskView, Scheduler, TaskView, View, Width,
};
pub use priority::FixedPriority;
pub use reef::Reef;
pub use rt_share::RtShare;
pub use steady::Steady;
pub use target::LatencyTarget;
