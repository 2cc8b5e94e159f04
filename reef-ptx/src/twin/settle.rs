//! Kernel of one thread that ends a run.

/// Name of the kernel.
pub const SETTLE: &str = "reef_settle";

/// Text of `reef_settle(device, host, number)`, for the version and target of a twin. It runs behind
/// a twin, in its stream.
///
/// | address | bytes | what |
/// |---|---|---|
/// | `device` | 4 | set to 1 by a stopped block; 0 again afterwards |
/// | `device` + 4 | 4 | number up to which runs are complete |
/// | `host` | 4 | number of the run that ended last |
/// | `host` + 4 | 4 | number up to which runs are complete |
///
/// If no block was stopped, runs are complete up to `number` with its last two bits set.
pub fn settle(version: &str, target: &str) -> String {
    include_str!("settle.ptx").replace("VERSION", version).replace("TARGET", target)
}
