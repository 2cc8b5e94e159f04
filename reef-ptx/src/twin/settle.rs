//! Kernel of one thread that tells whether a launch is complete.

/// Text of `reef_settle(dirty, done, number)`, for the version and target of a twin. It runs behind
/// a twin, in its stream: if no block was stopped, it writes `number` to `done`.
pub fn settle(version: &str, target: &str) -> String {
    include_str!("settle.ptx").replace("VERSION", version).replace("TARGET", target)
}
