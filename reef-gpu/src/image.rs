//! Device code: which builds there are of each source, and how what ships is packed.

/// Which of the two builds of each kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Runs to its end once started, at no cost. Serves real-time work.
    Plain,
    /// Stops when told to and says which blocks have run.
    Guarded,
}
