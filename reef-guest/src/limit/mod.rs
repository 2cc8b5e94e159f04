//! How much of a device a job may have, and who has taken what of it.
//!
//! *In*: variables that programs and clusters set ([`Limits`]); what a process is about to
//! allocate, and for how long its work was on the device. *Out*: when work may begin; whether
//! memory fits beside what all processes of its job have, from *books* in shared memory ([`Accounts`],
//! [`Account`]). A daemon reads them and adds what contexts take ([`Audit`]). *Invariant*: the sum
//! of what a job's processes have reserved never passes the job's limit; what a process had is its
//! job's again once the process has ended, however it ended; a limit that can't be read is an error
//! and never no limit.

pub(crate) mod accounts;
pub(crate) mod accounts_file;
mod atomic;
pub(crate) mod audit;
pub(crate) mod process;
pub(crate) mod quantity;
pub(crate) mod reserve;
pub(crate) mod schedule;
pub(crate) mod slot;
#[cfg(test)]
mod tests;
pub(crate) mod usage;
pub(crate) mod variables;

pub use accounts::{ACCOUNTS_BYTES, Accounts, MAX_JOBS, MAX_MEMBERS};
pub use accounts_file::AccountsFile;
pub use audit::{Audit, JobView, ProcessView};
pub use quantity::{WHOLE, bytes, format_bytes, parts_per_million, percent};
pub use schedule::Policy;
pub use slot::{Account, Full, Slot};
pub use usage::measure::{Usage, WorkState};
pub use variables::{Limits, Memory, folder};
