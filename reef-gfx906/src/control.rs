//! What tests set and see: the C functions `reef_gfx906_*` and the plain values that pass through them.

use crate::device::device;

/// How the device is built. Fixed at the first use, but for `step_budget` and `seed`: each time that they
/// are set, the seed's order begins anew.
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
    /// Most instructions of one wave at a time.
    pub slice: u32,
    /// How many workgroups the trace keeps; the oldest go first.
    pub trace: u32,
}

impl Default for Settings {
    /// An MI50, free-running.
    fn default() -> Self {
        Self { units: 60, workers: 2, seed: 0, step_budget: 1 << 36, slice: 1024, trace: 1 << 16 }
    }
}

/// How a workgroup has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// It has not.
    Running = 0,
    /// By its own last instruction.
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
    /// How it has ended.
    pub outcome: Outcome,
}

/// What the device has done since it was made.
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

/// Sets how the device is built. False if a value is out of range, or the device is in use already and
/// more than the step budget and the seed would change.
///
/// # Safety
///
/// `settings` points to a [`Settings`].
#[unsafe(no_mangle)]
unsafe extern "C" fn reef_gfx906_configure(settings: *const Settings) -> bool {
    // SAFETY: the caller's promise.
    crate::device::configure(unsafe { *settings })
}

/// While held, the device takes up no packet, so that a test can launch several things at once.
#[unsafe(no_mangle)]
extern "C" fn reef_gfx906_hold(held: bool) {
    device().hold(held);
}

/// Reads the counters.
///
/// # Safety
///
/// `counters` points to room for a [`Counters`].
#[unsafe(no_mangle)]
unsafe extern "C" fn reef_gfx906_counters(counters: *mut Counters) {
    // SAFETY: the caller's promise.
    unsafe { counters.write(device().counters()) };
}

/// Copies at most `room` records, oldest first, and says how many there are.
///
/// # Safety
///
/// `records` points to room for `room` records.
#[unsafe(no_mangle)]
unsafe extern "C" fn reef_gfx906_trace(records: *mut Record, room: usize) -> usize {
    let trace = device().trace();
    // SAFETY: the caller's promise, for as many as there is room for.
    unsafe { records.copy_from_nonoverlapping(trace.as_ptr(), room.min(trace.len())) };
    trace.len()
}

/// Empties the trace.
#[unsafe(no_mangle)]
extern "C" fn reef_gfx906_forget_trace() {
    device().forget_trace();
}

/// Copies at most `room` bytes of what is known of the last fault, in UTF-8 and without a final 0, and
/// says how many there are; 0 if there was none.
///
/// # Safety
///
/// `text` points to `room` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn reef_gfx906_last_fault(text: *mut u8, room: usize) -> usize {
    let fault = device().last_fault();
    // SAFETY: the caller's promise, for as many as there is room for.
    unsafe { text.copy_from_nonoverlapping(fault.as_ptr(), room.min(fault.len())) };
    fault.len()
}
