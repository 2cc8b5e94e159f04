//! Class of work, as typed.

/// Real-time or best-effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ClassName {
    /// Real-time: runs ahead of best-effort work.
    Rt,
    /// Best-effort: takes what is left.
    Be,
}
