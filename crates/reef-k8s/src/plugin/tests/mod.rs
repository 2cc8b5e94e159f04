//! The plugin against a kubelet of the tests' own: registrations, lists, allocations, restarts.

mod allocate;
mod kubelet;
mod random;
mod restarts;
