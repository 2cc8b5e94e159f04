//! Stops inside of kernels: the blocks of a long launch that have not begun leave while the guest
//! is held, and run afterwards.
//!
//! *In*: slices of variants with an entry guard, and holds. *Out*: the runs of each slice in its
//! stream, and stop words. *Invariant*: all runs of a group are in the program's stream before any
//! of them is stopped. So work behind them waits for all blocks, and no call of the driver is
//! needed for that: a thread that is inside the driver, with whatever lock, delays nothing.
//!
//! Up to eight slices are a *group*. In its stream these are the first runs of the slices, and then
//! three resumes of the whole group. Each has a gate before it, and writes its number for the host.
//! A resume does nothing if no block was left: its blocks leave at once. The last one can't be
//! stopped.
//!
//! 1. `sliced stream` launches a group, and gives its runs numbers.
//! 2. The thread of `agent` looks at the gate while groups are on the device. If it is closed, the
//!    sliced stream writes the number of the current run to the stop word, by streams of its own.
//! 3. The blocks that are left record themselves. The resume runs when the gate opens.
//!
//! A stop word that is written late names a run that has ended, so it stops nothing. Formats:
//! [`reef_ptx::variant`].

pub(crate) mod agent;
pub(crate) mod driver;
pub(crate) mod number;
pub(crate) mod sliced_stream;
pub(crate) mod stop_context;
mod wake;
