//! The plain values that pass between a test and the device.

/// Settings of the device. Fixed at the first use, but for `step_budget` and `seed`: each time that
/// they are set, the seed's order begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Compute units, 1 to 64.
    pub units: u32,
    /// Threads that execute waves; 0: one thread, and an order that the seed decides.
    pub workers: u32,
    /// Decides the order when `workers` is 0.
    pub seed: u64,
    /// Instructions after which a launch counts as hung.
    pub step_budget: u64,
    /// Maximum of instructions of one wave at a time.
    pub slice: u32,
    /// Number of workgroups that the trace keeps; the oldest go first.
    pub trace: u32,
}

impl Default for Settings {
    /// An MI50, free-running.
    fn default() -> Self {
        Self { units: 60, workers: 2, seed: 0, step_budget: 1 << 36, slice: 1024, trace: 1 << 16 }
    }
}

/// End of a workgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// It has not ended.
    Running = 0,
    /// It has ended by its own last instruction.
    Ended = 1,
    /// With its launch, because a workgroup of it had a fault.
    Faulted = 2,
    /// With its queue, which was destroyed.
    Killed = 3,
}

/// A workgroup that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Number of the launch, from 1 in the order in which the device took them up.
    pub launch: u64,
    /// Address of the kernel's descriptor.
    pub kernel: u64,
    /// Instructions that the device had run when the workgroup was placed.
    pub start: u64,
    /// Instructions that the device had run when it ended.
    pub end: u64,
    /// Instructions of this workgroup.
    pub steps: u64,
    /// Number of the hardware queue.
    pub queue: u32,
    /// Its priority, −3 to 3.
    pub priority: i32,
    /// The compute unit.
    pub unit: u32,
    /// Its place in the grid.
    pub group: [u32; 3],
    /// Workgroups of the grid.
    pub groups: [u32; 3],
    /// End of the workgroup.
    pub outcome: Outcome,
}

/// Counts of the device's work since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Instructions of waves.
    pub steps: u64,
    /// Kernels that were launched.
    pub launches: u64,
    /// Workgroups that were placed.
    pub groups: u64,
    /// Packets of all kinds that were processed.
    pub packets: u64,
    /// Faults, each the end of a queue.
    pub faults: u64,
    /// Workgroups on units now.
    pub resident: u64,
    /// Queues now.
    pub queues: u64,
    /// Bytes of device memory that are free now.
    pub available: u64,
}
