//! Processes of models, and networks of the daemon, that are on their device on demand: they leave
//! its memory while no request needs them, and return for the next one. A network counts as a
//! process here, with a number of its own.
//!
//! ```text
//!             room                idle, or room for another
//! Starting ────────► Resident ──────────────────────────────► Leaving
//!                       ▲                                        │
//!                       └──── Returning ◄──── Away ◄─────────────┘
//!                                  request, and room
//! ```
//!
//! - **In**: uses of processes by requests; starts and ends of processes; free memory.
//! - **Out**: suspensions and returns by a thread of their own: one at a time, or a *turnover*, in
//!   which a process returns while another one leaves that has all the room that it lacks. No
//!   network takes part in one.
//! - **Invariant**: a process that works on a request does not leave. One that has returned for a
//!   request answers it before it leaves again. Room is given to real-time processes first, and
//!   within a class in the order in which processes began to wait for it. A return of a turnover
//!   whose departure is refused is not a failed one: the process stays away, and the next least
//!   valuable one leaves.

mod choice;
mod entry;
pub(crate) mod facts;
pub(crate) mod idle;
pub(crate) mod mover;
pub(crate) mod networks;
pub(crate) mod residents;
mod steps;
mod table;
