//! How much of a device a job may have, and who has taken what of it.
//!
//! *In*: variables that programs and clusters set ([`Limits`]); what a process is about to
//! allocate, and for how long its work was on the device. *Out*: when work may begin; whether
//! memory fits beside what all processes of its job have, from *books* in shared memory ([`Books`],
//! [`Account`]). A daemon reads them and adds what contexts take ([`Audit`]). *Invariant*: the sum
//! of what a job's processes have reserved never passes the job's limit; what a process had is its
//! job's again once the process has ended, however it ended; a limit that can't be read is an error
//! and never no limit.

mod atomic;
pub(crate) mod audit;
pub(crate) mod books;
pub(crate) mod file;
pub(crate) mod part;
pub(crate) mod process;
pub(crate) mod quantity;
pub(crate) mod seat;
pub(crate) mod share;
#[cfg(test)]
mod tests;
pub(crate) mod time;
pub(crate) mod variables;

pub use audit::{Audit, JobView, ProcessView};
pub use books::{BOOKS_BYTES, Books, MOST_JOBS, MOST_MEMBERS};
pub use file::BooksFile;
pub use part::Policy;
pub use quantity::{WHOLE, bytes, parts_per_million, percent, shown};
pub use seat::{Account, Full, Seat};
pub use time::usage::{Seen, Usage};
pub use variables::{Limits, Memory, folder};
