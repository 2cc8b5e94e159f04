//! Phases of this process, as the program itself begins and ends them.
//!
//! *In*: calls of the program by C symbols. *Out*: for each device that it has joined, a phase.
//! *Invariant*: the first phase of all threads begins it and the last one ends it; a refusal
//! changes nothing; without a daemon the calls have no effect.

mod exports;
mod process;
