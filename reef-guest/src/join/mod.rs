//! How a guest gets its page: messages of one size over a Unix socket that keeps their bounds.
//!
//! *In*: the daemon's socket, the class wished for, the device's UUID, and what else the guest
//! shows: a job, a token, the page that it had from a daemon which is gone. *Out*: a page, and the
//! class granted. *Invariant*: a message of another version or kind changes nothing; the end of the
//! connection is the end of the guest.

mod guest;
pub(crate) mod guest_info;
pub(crate) mod wire;

pub use guest::{Joined, Link, Refusal, join, join_as, rejoin, would_join};
pub use guest_info::GuestInfo;
pub use wire::{JoinRequest, Uuid};
