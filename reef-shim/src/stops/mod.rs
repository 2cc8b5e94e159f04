//! Stops inside of kernels: the blocks of a long launch that have not begun leave while the guest
//! is held, and run afterwards.
//!
//! *In*: slices of twins with an entry guard, and holds. *Out*: for each slice the work in its
//! stream, and, if it is stopped, resumes of it in a stream of ours. *Invariant*: the program's
//! stream goes on behind a slice when each of its blocks has run once; between a stop and that moment
//! no call of the driver is needed, so a thread of the program that is inside the driver, with
//! whatever lock, delays nothing.
//!
//! | stream | work of a slice |
//! |---|---|
//! | the program's | gate · write `begun` · twin, first run · settle · wait until `done` |
//! | `resumes` | wait until the first run has ended · gate · write `resumed` · twin, resume · settle |
//! | `stops` | write the stop word |
//!
//! 1. `lane` launches a slice, and keeps what a resume needs.
//! 2. The thread of `agent` looks at the gate while slices are on the device. If it is closed, the
//!    lane first enqueues a resume, and then writes the stop word with the number of the run.
//! 3. The blocks that are left record themselves. The resume runs when the gate opens. It can be
//!    stopped again; the third resume of a slice can't.
//!
//! A stop word that is written late names a run that has ended, so it stops nothing. A resume that
//! turns out to be needless changes nothing. Formats of words: `reef_ptx::twin`.

mod agent;
pub(crate) mod driver;
pub(crate) mod ground;
pub(crate) mod lane;
mod number;
