//! Contexts: a device's primary one, which lives while a call retains it; those that were created;
//! green ones, which are views of a primary context with streams of their own.
//!
//! Streams, and registrations of memory, belong to a context and end with it. Handles of what has
//! ended come back.

/// Bytes of a created context: stacks of all threads, their output, their heap (17 MiB), and a part
/// that no limit tells, as with the driver (523 MiB in all on an H100). A primary one costs nothing
/// here.
pub(crate) const CONTEXT_BYTES: u64 = 40 << 20;

/// Kind of a context. It decides when the context ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Primary,
    Created,
    /// With the handle that names it among green contexts.
    Green(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// Never given twice.
    pub(crate) id: u64,
    pub(crate) device: usize,
    pub(crate) kind: Kind,
    /// Number of calls that have retained or attached it.
    pub(crate) references: u64,
    /// Whose memory it has: its own number, or that of the primary context.
    pub(crate) owner: u64,
}

/// The handle of a device's primary context, which stays the same.
pub(crate) fn primary(device: usize) -> usize {
    device + 1
}
