//! Kernel of one thread that ends a run.

/// Name of the kernel.
pub const SETTLE: &str = "reef_settle";

/// Text of `reef_settle(words, done, ended, number)`, to be put behind a twin's. It runs behind each
/// run, in its stream.
///
/// | address | what is there, of 4 bytes |
/// |---|---|
/// | `words` | 1 if a block was stopped; 0 again afterwards |
/// | `words` + 4 | number up to which runs are complete |
/// | `done` | the same, where the host reads it |
/// | `ended` | number of the run that ended |
///
/// If no block was stopped, runs are complete up to `number` with its last two bits set. A resume
/// of a complete run writes `ended` alone.
pub const SETTLE_TEXT: &str = include_str!("settle.ptx");
