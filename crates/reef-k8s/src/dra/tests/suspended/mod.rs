//! Memory of suspended programs, from the daemon's list to the scheduler and back.

mod answers;
mod claims;
mod daemon;
mod faults;
mod scheduler;
