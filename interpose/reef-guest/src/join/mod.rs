//! Joining: a guest gets its page by messages of one size over a `SOCK_SEQPACKET` Unix socket.
//!
//! *In*: the daemon's socket, the requested class, the device's UUID, and a job, a token, or the
//! page that the guest had from a daemon that has ended. *Out*: a page, and the class granted.
//! *Invariant*: a message of another version or kind changes nothing; the end of the connection is
//! the end of the guest.

mod guest;
pub(crate) mod guest_info;
pub(crate) mod wire;

pub use guest::{Joined, Link, Refusal, ask_for_memory, join, join_as, rejoin, would_join};
pub use guest_info::GuestInfo;
pub use wire::{JoinRequest, MemoryRequest, Uuid};
