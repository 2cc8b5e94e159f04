//! Resources that kernels take of a device, and the part of them that padding gives away.

use crate::backend::info::DeviceInfo;

/// Resources that one block of a kernel takes of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// Threads.
    pub threads: u32,
    /// 32-bit registers, of all threads together.
    pub registers: u32,
    /// Bytes of shared memory.
    pub shared: u32,
}

impl Resources {
    /// Enough for a block of either: what one launch of both must reserve for each block.
    #[must_use]
    pub fn either(self, other: Self) -> Self {
        Self {
            threads: self.threads.max(other.threads),
            registers: self.registers.max(other.registers),
            shared: self.shared.max(other.shared),
        }
    }

    /// Blocks that fit on one unit at a time; 0 if a single one doesn't.
    pub fn per_unit(&self, info: &DeviceInfo) -> u32 {
        let fit = |have: u32, need: u32| have.checked_div(need).unwrap_or(u32::MAX);
        info.blocks_per_unit
            .min(fit(info.threads_per_unit, self.threads))
            .min(fit(info.registers_per_unit, self.registers))
            .min(fit(info.shared_per_unit, self.shared))
    }
}

/// Profile of a launch, measured once on the device that it runs on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// Blocks in the grid.
    pub blocks: u32,
    /// Resources of one block.
    pub resources: Resources,
    /// Duration of the whole kernel alone, in microseconds.
    pub micros: u32,
    /// Duration of one round of blocks with `i + 1` blocks on each unit, in microseconds.
    pub round_micros: Vec<u32>,
}

/// The chosen padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padding {
    /// Units given to the real-time kernel; the rest run best-effort blocks.
    pub rt_units: u32,
    /// Best-effort blocks on one unit at a time.
    pub be_per_unit: u32,
    /// Best-effort blocks in all, at least one.
    pub be_blocks: u32,
}
