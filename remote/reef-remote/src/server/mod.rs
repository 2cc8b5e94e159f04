//! The server's end: sessions that share a device by its dispatcher, or have one of their own.
//!
//! *In*: connections, and a function that opens devices by name. *Out*: work of each session's
//! lanes, as clients of one dispatcher for each device or as its hardware queues; replies, and
//! positions. *Invariant*: a
//! session reaches only what it made itself. Ids, ranges and operations are checked before the
//! device sees them. When a session is over, its work is cancelled and its memory released.

mod host;
mod lanes;
mod list_entry;
mod listen;
mod migration;
mod objects;
mod origin;
mod own_lane;
mod own_session;
mod session;
mod shared;
mod tenants;

pub use host::{Admission, Begun, DeviceHost, Devices, Enlist, Host};
pub use listen::{Listener, LobbySlot, Security};
pub use migration::restore;
pub use tenants::accounts::{Account, Grant, Tenants};
pub use tenants::resource::Resource;
