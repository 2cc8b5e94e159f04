//! A session in another process: what all sorts of sessions share.
//!
//! ```text
//! session ──▶ steps ──▶ outgoing ──▶ target ═══▶ arrival ──▶ session
//!               └─────▶ a file
//! ```
//!
//! *In*: a session's side of its move, and another server or a file. *Out*: the session there, and
//! numbers about its way. *Invariant*: a session runs at one server at most, whatever fails and
//! when. `steps.rs` has the rule of the server that it leaves, `arrival.rs` that of the other one.

pub(crate) mod arrival;
pub(crate) mod outgoing;
pub(crate) mod session;
pub(crate) mod steps;
pub(crate) mod target;

pub use arrival::{Arrival, MigrationTarget};
pub use outgoing::Outgoing;
pub use session::{Each, Frozen, Migrate, PIECE_LEN, Region, Report, Write};
pub use steps::{MigrationSource, NotBegun, POLL_INTERVAL, Prepared, migrate, snapshot};
pub use target::Target;
