//! Slots of processes that are written to folders, and of those that start from them.
//!
//! *In*: the accounts file of a stopped process, and that of the machine on which it starts again.
//! *Out*: its slot, to be kept with the process; and the same slot with the same bytes, before the
//! process runs. *Invariant*: a process never runs without its limit, and the sum of its job never
//! exceeds the limit by its return. Otherwise it isn't started.

pub(super) mod saved_slot;
