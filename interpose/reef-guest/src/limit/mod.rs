//! Limits of a device's memory and time for each job, and accounts of what its processes use.
//!
//! *In*: environment variables of programs and clusters ([`Limits`]); the bytes that a process is
//! about to allocate, and the device time that its work took. *Out*: the time at which work may
//! begin, and whether memory fits in the job's limit. Both come from the *accounts file* of the
//! device in shared memory ([`Accounts`], [`Account`]). A daemon reads it and adds the memory of
//! contexts ([`Audit`]). *Invariant*: the sum of what a job's processes have reserved never exceeds
//! the job's limit; a process's memory returns to its job once the process has ended, however it
//! ended; an invalid limit is an error, never "unlimited".

pub(crate) mod accounts;
pub(crate) mod accounts_file;
mod atomic;
pub(crate) mod audit;
pub(crate) mod dmem;
pub(crate) mod process;
pub(crate) mod quantity;
pub(crate) mod reserve;
pub(crate) mod saved;
pub(crate) mod schedule;
pub(crate) mod slot;
#[cfg(test)]
mod tests;
pub(crate) mod usage;
pub(crate) mod variables;

pub use accounts::{ACCOUNTS_BYTES, Accounts, MAX_JOBS, MAX_MEMBERS};
pub use accounts_file::AccountsFile;
pub use audit::{Audit, JobView, ProcessView};
pub use dmem::{CgroupFiles, Cgroups, KernelLimits, limit as limit_by_kernel, own_cgroup, regions};
pub use process::{ProcessStat, is_gone as has_process_ended, start_of as process_start};
pub use quantity::{WHOLE, bytes, format_bytes, parts_per_million, percent};
pub use saved::saved_slot::{ReservedSlot, SavedSlot};
pub use schedule::Policy;
pub use slot::{Account, Full, Slot};
pub use usage::measure::{Usage, WorkState};
pub use usage::timeout::{Obstacle, Wait, WaitTimeout};
pub use variables::{Limits, Memory, folder};
